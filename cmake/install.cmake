# cmake --install, and find_package(weir COMPONENTS redis mysql sqlite testing) afterwards.
include(CMakePackageConfigHelpers)

install(TARGETS weir EXPORT weir-targets)
# The headers of the optional parts are installed with them: cmake/components.cmake.
install(DIRECTORY include/weir DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h"
        PATTERN "redis.h" EXCLUDE PATTERN "mysql.h" EXCLUDE PATTERN "sqlite.h" EXCLUDE
        PATTERN "testing.h" EXCLUDE)
install(FILES ${PROJECT_BINARY_DIR}/include/weir/version.h
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/weir)
install(EXPORT weir-targets NAMESPACE weir::
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/weir)
configure_package_config_file(cmake/weir-config.cmake.in
        ${PROJECT_BINARY_DIR}/weir-config.cmake
        INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/weir)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/weir-config-version.cmake
        COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/weir-config.cmake
              ${PROJECT_BINARY_DIR}/weir-config-version.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/weir)
