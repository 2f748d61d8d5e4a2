# Boost is used as headers alone; its own warnings are not ours.
target_include_directories(hearth_server SYSTEM PRIVATE ${Boost_INCLUDE_DIRS})
target_compile_definitions(hearth_server PRIVATE BOOST_ASIO_NO_DEPRECATED)
target_link_libraries(hearth_server PUBLIC OpenSSL::SSL OpenSSL::Crypto)
