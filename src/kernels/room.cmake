# Each ISA file is built with its own flags, and only on its architecture. Its code is reached through the table alone,
# after the CPU has been asked (kernels.cpp).
set(arm_sources neon.cpp dotprod.cpp)
set(x86_sources avx2.cpp avx512.cpp)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64|ARM64)$")
  set(other_sources ${x86_sources})
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  set(other_sources ${arm_sources})
else()
  set(other_sources ${arm_sources} ${x86_sources})
endif()
list(TRANSFORM other_sources PREPEND ${CMAKE_SOURCE_DIR}/src/kernels/)
set_source_files_properties(${other_sources} PROPERTIES HEADER_FILE_ONLY ON)  # listed, not compiled

set_source_files_properties(${CMAKE_SOURCE_DIR}/src/kernels/dotprod.cpp PROPERTIES
  COMPILE_OPTIONS "-march=armv8.2-a+dotprod")
set_source_files_properties(${CMAKE_SOURCE_DIR}/src/kernels/avx2.cpp PROPERTIES
  COMPILE_OPTIONS "-mavx2;-mfma;-mf16c")
set_source_files_properties(${CMAKE_SOURCE_DIR}/src/kernels/avx512.cpp PROPERTIES
  COMPILE_OPTIONS "-mavx2;-mfma;-mf16c;-mavx512f;-mavx512bw;-mavx512vl;-mavx512dq;-mavx512vnni")
