# What only those who work on Weir build: command line, tests, simulator, benchmarks.
# A folder with targets of its own has its own CMakeLists.txt.

# The engine as the simulator, tests and server see it: the library and its inside.
add_library(weir_inside STATIC src/platform/thread_executor.cc src/ledgers/memory_ledger.cc
            src/ledgers/rows.cc)
target_include_directories(weir_inside PUBLIC ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR})
target_link_libraries(weir_inside PUBLIC weir PRIVATE weir_flags)

if(WEIR_FUZZ)
  add_subdirectory(src/rules)
  add_subdirectory(src/frontends)
  add_subdirectory(fuzz)
  return()
endif()

enable_testing()
include(GoogleTest)
find_package(GTest REQUIRED)
find_package(rapidcheck REQUIRED)

# Generated cases compile slowly and run quickly. Watched by UBSan they take three times as long to
# compile: there without any effort, which halves that.
set(test_effort -O1)
if(WEIR_SANITIZE MATCHES "undefined")
  set(test_effort -O0)
endif()

# weir_test(name FILES files... [LIBS libs...] [ENGINE lib] [WHOLE] [LONG] [APART]): one binary, each of
# its tests known to ctest; with WHOLE they run in one process, since they share what takes long to start.
# One process that is LONG is begun first, or all others would wait for it at the end.
# Files that give one name to different things are compiled APART in every build.
# ENGINE takes the place of weir_inside. The label says what the tests are about; ./dev names those
# that run under the sanitizers.
function(weir_test name)
  cmake_parse_arguments(ARG "WHOLE;LONG;APART" "LABEL;ENGINE" "FILES;LIBS" ${ARGN})
  if(NOT ARG_ENGINE)
    set(ARG_ENGINE weir_inside)
  endif()
  add_executable(${name} ${ARG_FILES})
  target_compile_options(${name} PRIVATE ${test_effort})
  target_link_libraries(${name} PRIVATE ${ARG_ENGINE} weir_flags GTest::gmock
                        GTest::gtest_main rapidcheck ${ARG_LIBS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  if(ARG_APART)
    set_target_properties(${name} PROPERTIES UNITY_BUILD OFF)
  endif()
  if(WEIR_SANITIZE OR ARG_WHOLE)
    # Looking for leaks takes seconds at the end of a process: one process per binary.
    add_test(NAME ${name} COMMAND ${name})
    set_tests_properties(${name} PROPERTIES TIMEOUT 2400 LABELS "${ARG_LABEL}")
    if(ARG_LONG)
      set_tests_properties(${name} PROPERTIES COST 10)
    endif()
  else()
    gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 300 LABELS "${ARG_LABEL}")
  endif()
endfunction()

# Unit tests stand beside the code; one binary per room.
foreach(room base platform telemetry algorithms memory limiter origins ledgers)
  file(GLOB files CONFIGURE_DEPENDS src/${room}/*_test.cc)
  set(apart)
  if(room MATCHES "algorithms|limiter")
    set(apart APART)
  endif()
  if(files)
    weir_test(${room}_test LABEL engine FILES ${files} ${apart})
  endif()
endforeach()

add_subdirectory(src/ledgers/sql)
add_subdirectory(src/origins/redis)
add_subdirectory(src/rules)
add_subdirectory(src/frontends)
option(WEIR_SANITIZE_ALL "With WEIR_SANITIZE: build the command line and examples, too" OFF)
# A simulated world has one thread: the thread sanitizer would watch it for nothing.
if(NOT WEIR_SANITIZE STREQUAL "thread" OR WEIR_SANITIZE_ALL)
  add_subdirectory(sim)
endif()
add_subdirectory(tests)
# The sanitizer builds stop here unless asked for all: what follows adds no engine code.
if(NOT WEIR_SANITIZE OR WEIR_SANITIZE_ALL)
  add_subdirectory(src/server)
  add_subdirectory(examples)
  if(WEIR_BENCH AND NOT WEIR_SANITIZE)
    add_subdirectory(bench)
  endif()
endif()
