// SPDX-License-Identifier: Apache-2.0
// The nearest known name to a misspelt one, for help lines.
#include <algorithm>
#include <attune/diagnostic.hpp>
#include <cctype>

namespace attune {
namespace {

std::string lower(std::string_view word) {
  std::string result(word);
  for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

/// Damerau-Levenshtein distance: insertions, deletions, substitutions and swaps of neighbours.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

}  // namespace

std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates) {
  constexpr std::size_t longest = 64;  // nobody misspells more, and untrusted texts may hold names of any length
  if (word.empty() || word.size() > longest) return {};
  const std::size_t limit = std::max<std::size_t>(1, word.size() / 3);
  const std::string word_lower = lower(word);
  std::string best;
  std::size_t best_cost = 3 * limit + 3;
  for (const std::string& candidate : candidates) {
    if (candidate == word || candidate.empty() || candidate.size() > word.size() + limit ||
        candidate.size() + limit < word.size())
      continue;
    const bool same_letters = lower(candidate) == word_lower;
    const std::size_t distance = edit_distance(word, candidate);
    // Another letter altogether is a guess, not a spelling.
    if (!same_letters && (distance > limit || distance >= std::max(word.size(), candidate.size()))) continue;
    const std::size_t cost = same_letters ? 1 : 2 + 2 * distance;
    if (best.empty() || cost < best_cost) {
      best = candidate;
      best_cost = cost;
    }
  }
  return best;
}

}  // namespace attune
