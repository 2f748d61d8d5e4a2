# One static library per room: src/ROOM/**/*.cpp becomes hearth_ROOM. Rooms link to all rooms below them;
# tools/check_layers.py, not the linker, enforces who may include whom.

add_library(hearth_flags INTERFACE)
target_include_directories(hearth_flags INTERFACE ${CMAKE_SOURCE_DIR}/src)
target_link_libraries(hearth_flags INTERFACE Threads::Threads)
# Floating point: no contraction but the written one, so that every compiler means the same bits.
target_compile_options(hearth_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wold-style-cast -Woverloaded-virtual -Wnon-virtual-dtor
  -Wmissing-declarations -Wundef -Werror -ffp-contract=off)
# Two of GCC's flow warnings are wrong here: overlaps in "literal" + std::string (GCC bug 105651) and uninitialised
# parts of std::variant, which its own manual says sanitizers and inlining bring out.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(hearth_flags INTERFACE -Wno-restrict -Wno-maybe-uninitialized)
endif()
if(HEARTH_SANITIZE)
  target_compile_options(hearth_flags INTERFACE -fsanitize=${HEARTH_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all)
  # The tests count allocations with an operator new of their own, which GCC mistakes for a mismatch at -O1.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(hearth_flags INTERFACE -Wno-mismatched-new-delete)
    # Asio's fences, which ThreadSanitizer does not follow: all they order here goes through the strand's mutex too.
    if(HEARTH_SANITIZE STREQUAL "thread")
      target_compile_options(hearth_flags INTERFACE -Wno-tsan)
    endif()
  endif()
  # clang 14 has this check on x86-64 alone, and cannot assemble a coroutine with it.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND HEARTH_SANITIZE MATCHES "undefined")
    target_compile_options(hearth_flags INTERFACE -fno-sanitize=function)
  endif()
  target_link_options(hearth_flags INTERFACE -fsanitize=${HEARTH_SANITIZE})
endif()
if(HEARTH_FUZZ)
  target_compile_options(hearth_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

set(HEARTH_ROOMS "")

function(hearth_room name)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${name}/*.cpp)
  list(FILTER sources EXCLUDE REGEX "/main\\.cpp$")
  if(NOT sources)
    return()
  endif()
  add_library(hearth_${name} STATIC ${sources})
  target_link_libraries(hearth_${name} PUBLIC hearth_flags)
  foreach(below ${HEARTH_ROOMS})
    target_link_libraries(hearth_${name} PUBLIC hearth_${below})
  endforeach()
  if(EXISTS ${CMAKE_SOURCE_DIR}/src/${name}/room.cmake)
    include(${CMAKE_SOURCE_DIR}/src/${name}/room.cmake)  # extra flags or libraries of this room alone
  endif()
  set(HEARTH_ROOMS ${HEARTH_ROOMS} ${name} PARENT_SCOPE)
  if(EXISTS ${CMAKE_SOURCE_DIR}/src/${name}/main.cpp)
    add_executable(hearth ${CMAKE_SOURCE_DIR}/src/${name}/main.cpp)
    target_link_libraries(hearth PRIVATE hearth_${name})
    set_target_properties(hearth PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
  endif()
endfunction()
