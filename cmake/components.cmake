# The optional parts of the library: weir::redis, weir::mysql, weir::sqlite and weir::testing. An
# embedder turns on the ones it needs, with WEIR_REDIS and so on.

option(WEIR_TESTING "Build weir_testing, the test doubles of weir/testing.h" ${WEIR_DEV})

# cmake/dev.cmake adds these folders otherwise.
if(NOT WEIR_DEV)
  if(WEIR_REDIS)
    add_subdirectory(src/origins/redis)
  endif()
  if(WEIR_MYSQL OR WEIR_SQLITE)
    add_subdirectory(src/ledgers/sql)
  endif()
endif()

set(WEIR_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/weir)

# weir_part(target name): installs a static library as weir::name, with its own export file, so that
# find_package() loads only the parts that are asked for.
function(weir_part target name)
  add_library(weir::${name} ALIAS ${target})
  set_target_properties(${target} PROPERTIES
    EXPORT_NAME ${name} OUTPUT_NAME weir-${name})
  if(NOT WEIR_DEV)  # otherwise as the precompiled headers
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  endif()
  if(TARGET weir_internals)
    target_link_libraries(${target} PRIVATE weir_internals)
  endif()
  install(TARGETS ${target} EXPORT weir-${name}-targets)
  install(EXPORT weir-${name}-targets NAMESPACE weir:: DESTINATION ${WEIR_CMAKE_DIR})
  if(EXISTS ${PROJECT_SOURCE_DIR}/include/weir/${name}.h)
    install(FILES include/weir/${name}.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/weir)
  endif()
endfunction()

# A shared weir hides its internal symbols; the parts use a few of them and get a copy.
if(WEIR_HIDES_INTERNALS)
  add_library(weir_internals STATIC src/algorithms/backlog.cc src/algorithms/strict_ring.cc
    src/epoch/epoch.cc src/ledgers/rows.cc src/origins/exact_rule.cc src/origins/subscriber.cc
    src/platform/entropy.cc src/platform/thread_executor.cc)
  target_include_directories(weir_internals PRIVATE src)
  target_link_libraries(weir_internals PUBLIC weir PRIVATE $<BUILD_INTERFACE:weir_flags>)
  set_target_properties(weir_internals PROPERTIES
    EXPORT_NAME internals OUTPUT_NAME weir-internals POSITION_INDEPENDENT_CODE ON)
  install(TARGETS weir_internals EXPORT weir-targets)
endif()

if(TARGET weir_redis AND WEIR_REDIS)
  target_sources(weir_redis PRIVATE ${PROJECT_SOURCE_DIR}/src/library/redis.cc)
  weir_part(weir_redis redis)
endif()
if(TARGET weir_sql)
  weir_part(weir_sql sql)
endif()
if(TARGET weir_mysql)
  target_sources(weir_mysql PRIVATE ${PROJECT_SOURCE_DIR}/src/library/mysql.cc)
  weir_part(weir_mysql mysql)
endif()
if(TARGET weir_sqlite)
  target_sources(weir_sqlite PRIVATE ${PROJECT_SOURCE_DIR}/src/library/sqlite.cc)
  weir_part(weir_sqlite sqlite)
endif()
if(WEIR_TESTING)
  add_library(weir_testing STATIC src/testing/faulty_stores.cc src/testing/memory_ledger_store.cc
    src/ledgers/memory_ledger.cc)
  target_include_directories(weir_testing PRIVATE src)
  weir_precompile(weir_testing)
  target_link_libraries(weir_testing PUBLIC weir PRIVATE $<BUILD_INTERFACE:weir_flags>)
  weir_part(weir_testing testing)
endif()

if(WEIR_DEV)
  file(GLOB files CONFIGURE_DEPENDS src/library/*_test.cc src/testing/*_test.cc)
  weir_test(library_test MODULE library FILES ${files}
            LIBS weir_redis weir_mysql weir_sqlite weir_testing)
endif()
