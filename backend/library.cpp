// SPDX-License-Identifier: Apache-2.0
// dlopen with an account.
#include "backend/library.hpp"

#include <dlfcn.h>
#include <link.h>

#include <cstdlib>
#include <utility>

namespace attune {

bool open_library(const std::vector<std::string>& paths, const std::function<std::string(void* handle)>& accept,
                  LibraryReport& report) {
  for (const std::string& path : paths) {
    // RTLD_LOCAL: another copy in the host process must neither see these symbols nor lend its own.
    void* handle = dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
    if (handle == nullptr) {
      const char* reason = dlerror();
      const std::string text = reason != nullptr ? reason : "cannot be opened";
      // dlerror() mostly begins with the path itself.
      report.tried.push_back(text.rfind(path, 0) == 0 ? text : path + ": " + text);
      continue;
    }
    const std::string reason = accept(handle);
    if (!reason.empty()) {
      report.tried.push_back(path + ": " + reason);
      dlclose(handle);
      continue;
    }
    report.tried.push_back(path + ": used");
    report.path = path;
    // The full path says more than a soname to someone who reads the report.
    link_map* map = nullptr;
    if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr && map->l_name != nullptr && map->l_name[0] != 0)
      report.path = map->l_name;
    return true;
  }
  return false;
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

std::vector<std::string> paths_from(const char* name, std::vector<std::string> otherwise) {
  const std::string path = variable(name);
  return path.empty() ? std::move(otherwise) : std::vector<std::string>{path};
}

void* symbol_of(void* handle, const char* name) { return dlsym(handle, name); }

}  // namespace attune
