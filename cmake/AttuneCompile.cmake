# attune_compile(target): language level, warnings, visibility and sanitizers, the same for every target of ours.
function(attune_compile target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  set_target_properties(${target} PROPERTIES
    CXX_EXTENSIONS OFF POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET default)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wshadow -Wno-missing-field-initializers)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    target_compile_options(${target} PRIVATE -Wno-restrict)  # false alarms on `"text" + string` (GCC bug 105651)
  endif()
  if(ATTUNE_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  if(ATTUNE_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${ATTUNE_SANITIZE} -fno-omit-frame-pointer
                                             -fno-sanitize-recover=all)
    target_link_options(${target} PUBLIC -fsanitize=${ATTUNE_SANITIZE})
  endif()
endfunction()
