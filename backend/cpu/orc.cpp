// SPDX-License-Identifier: Apache-2.0
// Object bytes to callable code: one ORC session for the process, one JITDylib for each loaded object.
#include <fmt/format.h>

#include <condition_variable>
#include <cstring>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "backend/cpu/llvm.hpp"

namespace attune::cpu {
namespace {

using namespace llvm;

/// Loading takes well under a millisecond, so one lock around it costs nothing and lets failure notices, which ORC
/// gives to a reporter of the whole session, be told apart by load.
struct Session {
  const Api* llvm = nullptr;
  LLVMOrcLLJITRef jit = nullptr;
  LLVMOrcExecutionSessionRef execution = nullptr;
  std::string failure;  ///< why there is no session
  std::mutex lock;
  std::mutex notices_lock;  ///< the reporter may be called on a thread of ORC's
  std::string notices;
  std::vector<LLVMOrcJITDylibRef> idle;  ///< emptied JITDylibs: the C API cannot remove one, so they are used again
  int made = 0;

  void note(const std::string& text) {
    std::lock_guard guard(notices_lock);
    if (!notices.empty()) notices += "; ";
    notices += text;
  }
  std::string take_notices() {
    std::lock_guard guard(notices_lock);
    return std::exchange(notices, {});
  }
};

void report(void* context, LLVMErrorRef error) {
  auto& session = *static_cast<Session*>(context);
  session.note(take(*session.llvm, error));
}

Session& session() {
  // Never destroyed, like the library: a kernel held by a static object may outlive any order of destruction here.
  static Session* const made = [] {
    auto* result = new Session;
    result->llvm = api();
    if (result->llvm == nullptr) return result;
    result->failure = take(*result->llvm, result->llvm->LLVMOrcCreateLLJIT(&result->jit, nullptr));
    if (!result->failure.empty()) {
      result->jit = nullptr;
      return result;
    }
    result->execution = result->llvm->LLVMOrcLLJITGetExecutionSession(result->jit);
    result->llvm->LLVMOrcExecutionSessionSetErrorReporter(result->execution, report, result);
    return result;
  }();
  return *made;
}

/// Empties a JITDylib (its memory is freed) and keeps it for the next object. The session's lock is held.
void retire(Session& s, LLVMOrcJITDylibRef dylib) {
  std::string failure = take(*s.llvm, s.llvm->LLVMOrcJITDylibClear(dylib));
  if (failure.empty()) s.idle.push_back(dylib);
}

class OrcLoaded final : public Loaded {
 public:
  explicit OrcLoaded(LLVMOrcJITDylibRef dylib) : dylib_(dylib) {}
  ~OrcLoaded() override {
    Session& s = session();
    std::lock_guard guard(s.lock);
    retire(s, dylib_);
  }

 private:
  LLVMOrcJITDylibRef dylib_;
};

/// The answer of a lookup, which ORC may give on another thread.
struct Answer {
  const Api* llvm = nullptr;
  std::mutex lock;
  std::condition_variable ready;
  bool done = false;
  std::string failure;
  std::unordered_map<std::string, std::uint64_t> addresses;
};

void receive(LLVMErrorRef error, OrcSymbolPair* pairs, std::size_t count, void* context) {
  // After an error the context is still ours, but `pairs` is not to be read.
  auto& answer = *static_cast<Answer*>(context);
  std::lock_guard guard(answer.lock);
  if (error != nullptr) {
    answer.failure = take(*answer.llvm, error);
  } else {
    for (std::size_t k = 0; k < count; ++k)
      answer.addresses[answer.llvm->LLVMOrcSymbolStringPoolEntryStr(pairs[k].name)] = pairs[k].address;
  }
  answer.done = true;
  answer.ready.notify_all();
}

template <class Function>
Function function_at(std::uint64_t address) {
  static_assert(sizeof(Function) == sizeof address);
  Function function;
  std::memcpy(&function, &address, sizeof function);
  return function;
}

constexpr std::string_view parts[] = {"tasks", "scratch", "run"};

/// Links the object by looking every nest's functions up; "" or why that failed.
std::string link(Session& s, LLVMOrcJITDylibRef dylib, std::size_t nest_count, std::vector<NestCode>& nests) {
  std::vector<OrcLookupElement> wanted;
  for (std::size_t k = 0; k < nest_count; ++k)
    for (std::string_view part : parts)
      wanted.push_back({s.llvm->LLVMOrcLLJITMangleAndIntern(s.jit, fmt::format("nest{}_{}", k, part).c_str()), 0});
  if (wanted.empty()) return {};
  std::size_t count = wanted.size();
  wanted.push_back({nullptr, 0});
  OrcSearchElement order[] = {{dylib, 0}, {nullptr, 0}};

  Answer answer;
  answer.llvm = s.llvm;
  constexpr int static_lookup = 0;
  s.llvm->LLVMOrcExecutionSessionLookup(s.execution, static_lookup, order, 1, wanted.data(), count, receive, &answer);
  std::unique_lock guard(answer.lock);
  answer.ready.wait(guard, [&] { return answer.done; });
  if (!answer.failure.empty()) return answer.failure;

  nests.resize(nest_count);
  for (std::size_t k = 0; k < nest_count; ++k) {
    auto at = [&](std::string_view part) { return answer.addresses.at(fmt::format("nest{}_{}", k, part)); };
    nests[k].tasks = function_at<decltype(NestCode::tasks)>(at("tasks"));
    nests[k].scratch = function_at<decltype(NestCode::scratch)>(at("scratch"));
    nests[k].run = function_at<decltype(NestCode::run)>(at("run"));
  }
  return {};
}

}  // namespace

Result<std::shared_ptr<Loaded>> load(const std::vector<std::uint8_t>& code, std::size_t nest_count) {
  Session& s = session();
  if (s.llvm == nullptr) return missing();
  if (s.jit == nullptr) return refused("LLVM cannot load code into this process", s.failure);
  const auto objects = unpack(code);
  if (!objects) return refused("the compiled code cannot be loaded", "it is cut short");
  std::lock_guard guard(s.lock);
  s.take_notices();

  // A bare JITDylib searches only itself, so an object with an unresolved reference is refused instead of being bound
  // to whatever the process exports under that name.
  LLVMOrcJITDylibRef dylib = nullptr;
  if (!s.idle.empty()) {
    dylib = s.idle.back();
    s.idle.pop_back();
  } else {
    dylib = s.llvm->LLVMOrcExecutionSessionCreateBareJITDylib(s.execution, fmt::format("attune.{}", s.made++).c_str());
  }
  std::vector<NestCode> nests;
  std::string failure;
  for (const Bytes& object : *objects) {
    LLVMMemoryBufferRef buffer = s.llvm->LLVMCreateMemoryBufferWithMemoryRangeCopy(
        reinterpret_cast<const char*>(object.begin), object.size, "kernel.o");
    failure = take(*s.llvm, s.llvm->LLVMOrcLLJITAddObjectFile(s.jit, dylib, buffer));
    if (!failure.empty()) break;
  }
  if (failure.empty()) failure = link(s, dylib, nest_count, nests);
  if (!failure.empty()) {
    if (std::string notices = s.take_notices(); !notices.empty()) failure += " (" + notices + ")";
    retire(s, dylib);
    return refused("the compiled code cannot be loaded", failure);
  }
  auto loaded = std::make_shared<OrcLoaded>(dylib);
  loaded->nests = std::move(nests);
  return std::shared_ptr<Loaded>(std::move(loaded));
}

}  // namespace attune::cpu
