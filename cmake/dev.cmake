# What only those who work on Weir build: the programs, and with WEIR_TESTS the tests, the
# simulator, the examples and the benchmarks. A folder with targets of its own has its own
# CMakeLists.txt.

# The engine as the simulator, tests and server see it: the library and its inside.
add_library(weir_inside STATIC src/ledgers/memory_ledger.cc)
target_include_directories(weir_inside PUBLIC ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR})
target_link_libraries(weir_inside PUBLIC weir PRIVATE weir_flags)
weir_precompile(weir_inside)

# Of what most folders use.
find_package(fmt REQUIRED)
find_package(CLI11 REQUIRED)

# weir_program(name files...): one of the programs in build/bin. It parses options and starts what
# the libraries do; fast code would only compile slower.
function(weir_program name)
  add_executable(${name} ${ARGN})
  target_compile_options(${name} PRIVATE -O1)
  target_link_libraries(${name} PRIVATE weir_command_line weir_inside weir_flags)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
endfunction()

include(cmake/tests.cmake)

add_subdirectory(src/ledgers/sql)
add_subdirectory(src/origins/redis)
add_subdirectory(src/rules)
add_subdirectory(src/catalog)
add_subdirectory(src/frontends)
# Sanitized builds leave the programs and what stands around them out, unless asked for all: they
# add no engine code.
if(NOT WEIR_SANITIZE OR WEIR_SANITIZE_ALL)
  add_subdirectory(src/command_line)
  add_subdirectory(src/server)
  set(whole TRUE)
endif()
if(NOT WEIR_TESTS)
  return()
endif()
# These have one thread: the thread sanitizer would watch it for nothing.
if(NOT WEIR_SANITIZE STREQUAL "thread" OR whole)
  add_subdirectory(src/plot)
  add_subdirectory(src/lab)
  add_subdirectory(sim)
endif()
if(whole)
  add_subdirectory(src/demo)
  add_subdirectory(examples)
endif()
add_subdirectory(tests)
if(WEIR_BENCH AND NOT WEIR_SANITIZE)
  add_subdirectory(bench)
endif()
if(WEIR_FUZZ)
  add_subdirectory(fuzz)
endif()
