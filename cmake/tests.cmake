# How tests are built, and the unit tests of the modules that have no CMakeLists.txt.

if(NOT WEIR_TESTS)
  function(weir_test)
  endfunction()
  return()
endif()

enable_testing()
include(GoogleTest)
find_package(GTest REQUIRED)
find_package(rapidcheck REQUIRED)

# Tests compile slowly and run quickly, so they are compiled with little optimization.
set(test_effort)
if(NOT WEIR_SANITIZE)
  set(test_effort -Og)
endif()

# The headers that every test includes take two seconds to parse, so they are precompiled.
add_library(weir_test_headers STATIC ${PROJECT_BINARY_DIR}/test_headers.cc)
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/test_headers.cc CONTENT "// Carries the precompiled headers.\n")
target_compile_options(weir_test_headers PRIVATE ${test_effort})
target_link_libraries(weir_test_headers PRIVATE weir weir_flags GTest::gmock rapidcheck)
target_precompile_headers(weir_test_headers PRIVATE <gmock/gmock.h> <gtest/gtest.h> <rapidcheck/gtest.h>
  <algorithm> <chrono> <functional> <map> <optional> <string> <thread> <vector>)

# keep_files_with(REGEX LIST): removes the files without a line that matches from a list.
function(keep_files_with regex list_name)
  set(kept)
  foreach(file ${${list_name}})
    cmake_path(ABSOLUTE_PATH file BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    file(STRINGS ${file} found LIMIT_COUNT 1 REGEX ${regex})
    if(found)
      list(APPEND kept ${file})
    endif()
  endforeach()
  if(NOT "${kept}" MATCHES "_test.cc")
    set(kept)
  endif()
  set(${list_name} ${kept} PARENT_SCOPE)
endfunction()

# Unit tests in the optimized build, for ./dev test --only and --full.
add_custom_target(unit_tests)

# weir_test(name MODULE modules... FILES files... [LIBS libs...] [ENGINE lib] [OPTIMIZED] [WHOLE] [LONG]):
# adds one test binary. ctest knows each of its tests by the label MODULE/name or MODULE/name/optimized, which
# ./dev test uses.
# OPTIMIZED: ./dev test runs it in the optimized build; the others run under ASan and UBSan.
# WHOLE: all tests run in one process, because they share servers that start slowly.
# LONG: computes for long in one process. It starts first, and is compiled with optimization, because
# the linker may take any inline function from a test.
# ENGINE replaces weir_inside.
function(weir_test name)
  cmake_parse_arguments(ARG "OPTIMIZED;WHOLE;LONG" "ENGINE" "MODULE;FILES;LIBS" ${ARGN})
  if(NOT ARG_ENGINE)
    set(ARG_ENGINE weir_inside)
  endif()
  if(ARG_OPTIMIZED AND WEIR_SANITIZE AND NOT WEIR_SANITIZE_ALL)
    return()
  endif()
  # A race needs two threads.
  if(WEIR_SANITIZE STREQUAL "thread" AND NOT WEIR_SANITIZE_ALL)
    keep_files_with("[Tt]hread|std::async|RedisServer|MariaDbServer" ARG_FILES)
  endif()
  if(NOT ARG_FILES)
    return()
  endif()
  add_executable(${name} ${ARG_FILES})
  if(ARG_LONG AND ARG_OPTIMIZED)
    set(test_effort -O1)
  else()
    target_precompile_headers(${name} REUSE_FROM weir_test_headers)
  endif()
  target_compile_options(${name} PRIVATE ${test_effort})
  target_link_libraries(${name} PRIVATE ${ARG_ENGINE} weir_flags GTest::gmock
                        GTest::gtest_main rapidcheck ${ARG_LIBS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  # gtest_discover_tests() takes one label only.
  set(kind)
  if(ARG_OPTIMIZED)
    set(kind /optimized)
  endif()
  set(labels)
  foreach(module ${ARG_MODULE})
    if(NOT TARGET tests_of_${module})
      add_custom_target(tests_of_${module})
    endif()
    add_dependencies(tests_of_${module} ${name})
    list(APPEND labels ${module}/${name}${kind})
  endforeach()
  if(NOT ARG_OPTIMIZED AND NOT WEIR_SANITIZE)
    set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ON
      RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/unit)
    add_dependencies(unit_tests ${name})
  endif()
  if(WEIR_SANITIZE OR ARG_WHOLE)
    # The leak check takes seconds at the end of a process: one process per binary.
    add_test(NAME ${name} COMMAND ${name})
    set_tests_properties(${name} PROPERTIES TIMEOUT 2400 LABELS "${labels}")
    if(ARG_LONG)
      set_tests_properties(${name} PROPERTIES COST 10)
    endif()
  else()
    set(cost 0)
    if(ARG_LONG)
      set(cost 10)
    endif()
    gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 1200 COST ${cost} LABELS "${labels}")
  endif()
endfunction()

# Unit tests are in the folder of their module; one binary per module. In sanitized builds the quick
# modules share one binary: the leak check takes three seconds at the end of each process.
set(quick_modules base platform epoch telemetry algorithms memory origins)
set(quick_files)
foreach(module ${quick_modules} regional global decide ledgers)
  file(GLOB files CONFIGURE_DEPENDS src/${module}/*_test.cc)
  if(WEIR_SANITIZE AND module IN_LIST quick_modules)
    list(APPEND quick_files ${files})
  elseif(files)
    weir_test(${module}_test MODULE ${module} FILES ${files})
  endif()
  # Files with generated cases also run in the optimized build, with ten times as many.
  if(NOT WEIR_SANITIZE)
    keep_files_with("RC_GTEST_PROP|generated_cases|rc::gen" files)
    if(files)
      weir_test(${module}_properties_test OPTIMIZED MODULE ${module} FILES ${files})
    endif()
  endif()
endforeach()
if(WEIR_SANITIZE)
  weir_test(modules_test MODULE ${quick_modules} FILES ${quick_files})
endif()
