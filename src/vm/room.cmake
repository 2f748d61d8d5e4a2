# The header that every C program gets is a text file, compiled in as one string.
file(READ ${CMAKE_SOURCE_DIR}/src/vm/runtime/hearth_vm.h hearth_vm_runtime)
configure_file(${CMAKE_SOURCE_DIR}/src/vm/runtime_text.cpp.in ${CMAKE_BINARY_DIR}/generated/vm_runtime_text.cpp @ONLY)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/vm/runtime/hearth_vm.h)
target_sources(hearth_vm PRIVATE ${CMAKE_BINARY_DIR}/generated/vm_runtime_text.cpp)
# clang checks the overflow of 128-bit products by a routine that libgcc does not have. The numbers of these files stay far
# below that: their ranges are proved when the model is built.
if(HEARTH_SANITIZE MATCHES "undefined" AND CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  set_source_files_properties(${CMAKE_SOURCE_DIR}/src/vm/hull.cpp ${CMAKE_SOURCE_DIR}/src/vm/plan.cpp
    PROPERTIES COMPILE_OPTIONS "-fno-sanitize=signed-integer-overflow")
endif()
