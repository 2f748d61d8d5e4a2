# The catalogue is a text file, compiled in as one string.
file(READ ${CMAKE_SOURCE_DIR}/src/cli/models.toml hearth_catalogue)
configure_file(${CMAKE_SOURCE_DIR}/src/cli/catalogue_text.cpp.in ${CMAKE_BINARY_DIR}/generated/catalogue_text.cpp @ONLY)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/cli/models.toml)
target_sources(hearth_cli PRIVATE ${CMAKE_BINARY_DIR}/generated/catalogue_text.cpp)
target_compile_definitions(hearth_cli PRIVATE HEARTH_VERSION="${PROJECT_VERSION}")
