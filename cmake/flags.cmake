# How our own code is compiled; nothing of it reaches those who link the library.
add_library(weir_flags INTERFACE)
target_compile_options(weir_flags INTERFACE -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion)
# Clang checks the lock annotations of base/thread_annotations.h.
target_compile_options(weir_flags INTERFACE
  $<$<CXX_COMPILER_ID:Clang>:-Wthread-safety> $<$<CXX_COMPILER_ID:Clang>:-Werror=thread-safety>)
# With sanitizers g++ warns of uninitialised values in the standard library's own headers.
if(WEIR_DEV AND NOT WEIR_SANITIZE)
  target_compile_options(weir_flags INTERFACE -Werror)
elseif(WEIR_SANITIZE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(weir_flags INTERFACE -Wno-maybe-uninitialized)
  # Asio uses fences, which TSan does not follow; it errs on the loud side there.
  if(WEIR_SANITIZE STREQUAL "thread")
    target_compile_options(weir_flags INTERFACE -Wno-tsan)
  endif()
endif()
# Of files that are compiled as one g++ says that others might see their anonymous namespaces.
set(as_one $<AND:$<CXX_COMPILER_ID:GNU>,$<BOOL:$<TARGET_PROPERTY:UNITY_BUILD>>>)
target_compile_options(weir_flags INTERFACE $<${as_one}:-Wno-subobject-linkage>)
# Intel's processors from Skylake to Cascade Lake decode a branch anew each time if it touches the
# end of 32 bytes of code; kept off it, a decision takes one part in twenty less.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  include(CheckCXXCompilerFlag)
  check_cxx_compiler_flag(-Wa,-mbranches-within-32B-boundaries WEIR_PLACES_BRANCHES)
  if(WEIR_PLACES_BRANCHES)
    target_compile_options(weir_flags INTERFACE -Wa,-mbranches-within-32B-boundaries)
  endif()
endif()
# Instructions that the compiler may use. One level for all processors since about 2018, so that the
# same compiler gives the same code on each of them: tests/instructions counts what that code does.
set(WEIR_LEVEL "")
if(WEIR_NATIVE)
  set(WEIR_LEVEL -march=native)
elseif(WEIR_MODERN AND EXISTS /proc/cpuinfo)
  file(READ /proc/cpuinfo processor)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    set(level -march=x86-64-v3)
    set(needs avx2 bmi1 bmi2 f16c fma abm movbe xsave)
  elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
    set(level -march=armv8.2-a -mtune=neoverse-n1)
    set(needs atomics asimdrdm crc32 dcpop)
  else()
    set(needs "a level for this architecture")
  endif()
  set(WEIR_LEVEL ${level})
  foreach(feature ${needs})
    if(NOT processor MATCHES " ${feature}[ \n]")
      message(STATUS "The processor has no ${feature}: compiling for any ${CMAKE_SYSTEM_PROCESSOR}")
      set(WEIR_LEVEL "")
      break()
    endif()
  endforeach()
endif()
add_compile_options(${WEIR_LEVEL})
if(WEIR_SANITIZE)
  # Without optimization the engine compiles in a third of the time. What computes for long is tested in the
  # optimized build.
  set(CMAKE_CXX_FLAGS_SANITIZED "-O0 -g1")
  add_compile_definitions(WEIR_SANITIZED)
  add_compile_options(-fsanitize=${WEIR_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${WEIR_SANITIZE})
  # Links a program of many large objects in a quarter of the time.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    add_link_options(-fuse-ld=lld)
  endif()
  if(WEIR_SANITIZE MATCHES "undefined")
    add_compile_options(-fno-sanitize-recover=all)
  endif()
endif()
# Headers cost most of the time. ./dev test --full compiles each file by itself, so that each names
# all it includes.
if(WEIR_DEV AND WEIR_UNITY)
  set(CMAKE_UNITY_BUILD ON)
  set(CMAKE_UNITY_BUILD_BATCH_SIZE 24)
else()
  set(CMAKE_DISABLE_PRECOMPILE_HEADERS ON)
endif()
if(CMAKE_CXX_COMPILER_LAUNCHER STREQUAL "" OR NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(WEIR_CCACHE ccache)
  if(WEIR_CCACHE AND WEIR_DEV)
    set(CMAKE_CXX_COMPILER_LAUNCHER ${WEIR_CCACHE})
  endif()
endif()

set(WEIR_COMMON_HEADERS <algorithm> <array> <atomic> <chrono> <deque> <functional> <map> <memory> <mutex> <optional>
  <span> <string> <string_view> <thread> <unordered_map> <utility> <variant> <vector>)

# weir_precompile(targets...): parses the headers of the standard library, which nearly every file includes,
# once for all targets with the same options. Each file still names all it includes: ./dev test --full
# compiles without this.
function(weir_precompile)
  if(NOT WEIR_DEV)
    return()
  endif()
  if(NOT TARGET weir_headers)
    file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/headers.cc CONTENT "// Carries the precompiled headers.\n")
    add_library(weir_headers STATIC ${PROJECT_BINARY_DIR}/headers.cc)
    target_compile_features(weir_headers PUBLIC cxx_std_20)
    target_link_libraries(weir_headers PRIVATE weir_flags)
    target_precompile_headers(weir_headers PRIVATE ${WEIR_COMMON_HEADERS})
  endif()
  foreach(target ${ARGN})
    target_precompile_headers(${target} REUSE_FROM weir_headers)
  endforeach()
endfunction()
