# The catalogue is a text file, compiled in as one string.
file(READ ${CMAKE_SOURCE_DIR}/src/cli/models.toml hearth_catalogue)
configure_file(${CMAKE_SOURCE_DIR}/src/cli/catalogue_text.cpp.in ${CMAKE_BINARY_DIR}/generated/catalogue_text.cpp @ONLY)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/cli/models.toml)
target_sources(hearth_cli PRIVATE ${CMAKE_BINARY_DIR}/generated/catalogue_text.cpp)
target_compile_definitions(hearth_cli PRIVATE HEARTH_VERSION="${PROJECT_VERSION}")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 sees overlaps where there are none in "literal" + std::string (its bug 105651).
  target_compile_options(hearth_cli PRIVATE -Wno-restrict)
endif()
