# Each ISA file is built with its own flags, and only on its architecture. Its code is reached through the table alone,
# after the CPU has been asked (kernels.cpp).
set(arm_levels neon dotprod fp16fml i8mm panels_neon panels_dotprod panels_i8mm panels_fast_i8mm float_neon float_i8mm)
set(x86_levels avx2 avx2_float avx2_panels avx512 avx512_float avx512_panels avx512_vectors amx)
set(flags_neon "")
set(flags_dotprod "-march=armv8.2-a+dotprod")
set(flags_fp16fml "-march=armv8.2-a+dotprod+fp16fml")
set(flags_i8mm "-march=armv8.2-a+dotprod+i8mm")
set(flags_panels_neon "${flags_neon}")
set(flags_panels_dotprod "${flags_dotprod}")
set(flags_panels_i8mm "${flags_i8mm}")
set(flags_panels_fast_i8mm "${flags_i8mm}")
set(flags_float_neon "${flags_neon}")
set(flags_float_i8mm "-march=armv8.2-a+fp16+fp16fml")
set(flags_avx2 "-mavx2;-mfma;-mf16c")
set(flags_avx512 "${flags_avx2};-mavx512f;-mavx512bw;-mavx512vl;-mavx512dq;-mavx512vnni")
set(flags_avx2_panels "${flags_avx2}")
set(flags_avx2_float "${flags_avx2}")
set(flags_avx512_panels "${flags_avx512}")
# GCC 12 warns of the deliberately undefined vectors in its own avx512fintrin.h (GCC bug 105593).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  list(APPEND flags_avx512_panels -Wno-uninitialized)
endif()
set(flags_avx512_float "${flags_avx512_panels}")
set(flags_avx512_vectors "${flags_avx512_panels}")
set(flags_amx "${flags_avx512_panels};-mamx-tile;-mamx-int8")

set(own_levels "")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64|ARM64)$")
  set(own_levels ${arm_levels})
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  set(own_levels ${x86_levels})
endif()

# In the sanitized builds vector code is checked for addresses only: the checks of undefined behaviour on every inlined
# step take minutes to compile. The reference, which has the same logic, keeps them.
set(without_undefined "")
if(HEARTH_SANITIZE MATCHES "undefined")
  set(without_undefined "-fno-sanitize=undefined")
endif()

set(isa_objects "")
foreach(level ${arm_levels} ${x86_levels})
  set(source ${CMAKE_SOURCE_DIR}/src/kernels/${level}.cpp)
  if(level IN_LIST own_levels)
    set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "${flags_${level}};${without_undefined}")
    list(APPEND isa_objects
      ${CMAKE_BINARY_DIR}/CMakeFiles/hearth_kernels.dir/src/kernels/${level}.cpp${CMAKE_CXX_OUTPUT_EXTENSION})
  else()
    set_source_files_properties(${source} PROPERTIES HEADER_FILE_ONLY ON)  # listed, not compiled
  endif()
endforeach()
set(HEARTH_ISA_OBJECTS ${isa_objects} CACHE INTERNAL "Objects that tools/check_weak_symbols.py looks at")
