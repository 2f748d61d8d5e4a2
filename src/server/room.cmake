# Boost is used as headers alone; its own warnings are not ours.
target_include_directories(hearth_server SYSTEM PRIVATE ${Boost_INCLUDE_DIRS})
target_compile_definitions(hearth_server PRIVATE BOOST_ASIO_NO_DEPRECATED)
target_link_libraries(hearth_server PUBLIC OpenSSL::SSL OpenSSL::Crypto)

# The page: every file of web/ compiled in.
file(GLOB hearth_page_files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/web/*.html ${CMAKE_SOURCE_DIR}/web/*.css
  ${CMAKE_SOURCE_DIR}/web/*.js ${CMAKE_SOURCE_DIR}/web/*.svg)
add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/generated/page_files.cpp
  COMMAND ${CMAKE_COMMAND} -DFOLDER=${CMAKE_SOURCE_DIR}/web -DOUTPUT=${CMAKE_BINARY_DIR}/generated/page_files.cpp
    -P ${CMAKE_SOURCE_DIR}/cmake/embed_page.cmake
  DEPENDS ${hearth_page_files} ${CMAKE_SOURCE_DIR}/cmake/embed_page.cmake VERBATIM)
target_sources(hearth_server PRIVATE ${CMAKE_BINARY_DIR}/generated/page_files.cpp)
