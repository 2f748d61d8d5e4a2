# The header that every C program gets is a text file, compiled in as one string.
file(READ ${CMAKE_SOURCE_DIR}/src/vm/runtime/hearth_vm.h hearth_vm_runtime)
configure_file(${CMAKE_SOURCE_DIR}/src/vm/runtime_text.cpp.in ${CMAKE_BINARY_DIR}/generated/vm_runtime_text.cpp @ONLY)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/vm/runtime/hearth_vm.h)
target_sources(hearth_vm PRIVATE ${CMAKE_BINARY_DIR}/generated/vm_runtime_text.cpp)
