# ONNX Runtime's C headers, where there are some: ONNXRUNTIME_ROOT (of CMake, else of the environment),
# else what setup/onnxruntime has fetched. The library itself is loaded when a graph is run. Without
# headers the program says so when a graph is to be run, and does everything else.
set(ONNXRUNTIME_ROOT "$ENV{ONNXRUNTIME_ROOT}" CACHE PATH "Folder with ONNX Runtime's include/ and lib/")
set(onnxruntime_root ${ONNXRUNTIME_ROOT})
if(NOT onnxruntime_root)
  set(onnxruntime_root ${PROJECT_SOURCE_DIR}/build/onnxruntime)
endif()
# Configures again when the headers have come.
file(GLOB onnxruntime_header CONFIGURE_DEPENDS ${onnxruntime_root}/include/onnxruntime_c_api.h)
find_path(ONNXRUNTIME_INCLUDE onnxruntime_c_api.h NO_DEFAULT_PATH NO_CMAKE_FIND_ROOT_PATH
  PATHS ${onnxruntime_root}/include ${onnxruntime_root}/include/onnxruntime
        ${onnxruntime_root}/include/onnxruntime/core/session)
set(onnxruntime_version 0)
if(ONNXRUNTIME_INCLUDE)
  file(STRINGS ${ONNXRUNTIME_INCLUDE}/onnxruntime_c_api.h version_line REGEX "define ORT_API_VERSION [0-9]+")
  string(REGEX MATCH "[0-9]+" onnxruntime_version "${version_line}")
endif()

get_target_property(graph_sources fathom_graph SOURCES)
# What is called of newer versions is asked for when the program runs; its names must be declared.
if(onnxruntime_version GREATER_EQUAL 24)
  list(FILTER graph_sources EXCLUDE REGEX "/runtime_absent\\.cpp$")
  target_include_directories(fathom_graph SYSTEM PRIVATE ${ONNXRUNTIME_INCLUDE})
  # Of the one file that looks there, so that a compiler cache knows the others in any clone.
  set_source_files_properties(${PROJECT_SOURCE_DIR}/src/graph/onnxruntime/runtime.cpp PROPERTIES
    COMPILE_DEFINITIONS FATHOM_ONNXRUNTIME_ROOT="${onnxruntime_root}")
  set(FATHOM_HAS_ONNXRUNTIME ON)
else()
  if(ONNXRUNTIME_INCLUDE)
    message(STATUS "ONNX Runtime's headers in ${ONNXRUNTIME_INCLUDE} are of version ${onnxruntime_version}; 24 or later is needed")
  endif()
  message(STATUS "Without ONNX Runtime's headers: setup/onnxruntime fetches them")
  list(FILTER graph_sources EXCLUDE REGEX "/src/graph/onnxruntime/")
  set(FATHOM_HAS_ONNXRUNTIME OFF)
endif()
set_target_properties(fathom_graph PROPERTIES SOURCES "${graph_sources}")
