# What `cmake --install` puts down: the program, the public headers, one static library that holds
# every room below the command line, and a package that find_package(fathom) finds.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(library_rooms base numerics checkpoint kernels cache experts model graph text grammar sample engine)
set(library_objects)
foreach(room ${library_rooms})
  list(APPEND library_objects $<TARGET_OBJECTS:fathom_${room}>)
endforeach()
add_library(fathom_library STATIC ${library_objects})
set_target_properties(fathom_library PROPERTIES
  OUTPUT_NAME fathom EXPORT_NAME fathom LINKER_LANGUAGE CXX)
target_compile_features(fathom_library INTERFACE cxx_std_20)
target_include_directories(fathom_library INTERFACE
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(fathom_library PRIVATE
  Threads::Threads fmt::fmt spdlog::spdlog PkgConfig::PCRE2 PkgConfig::UTF8PROC PkgConfig::URING
  PkgConfig::CRYPTO)

install(TARGETS fathom_library EXPORT fathomTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS fathom qhx_generate RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY include/fathom DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
# The program looks for its default model there.
if(EXISTS ${PROJECT_SOURCE_DIR}/models/demo/config.json)
  install(DIRECTORY models/demo DESTINATION ${CMAKE_INSTALL_DATADIR}/fathom/models)
endif()
install(FILES LICENSE README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/fathom)
install(EXPORT fathomTargets NAMESPACE fathom:: DESTINATION ${package_folder})
configure_package_config_file(cmake/fathomConfig.cmake.in ${PROJECT_BINARY_DIR}/package/fathomConfig.cmake
  INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/package/fathomConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/package/fathomConfig.cmake ${PROJECT_BINARY_DIR}/package/fathomConfigVersion.cmake
  DESTINATION ${package_folder})
