# What Motley links with, gathered in the interface target mot_dependencies.
# StarPU: the one tools/setup built (its prefix is in MOT_STARPU_PREFIX), else the distribution's; for
# the simulator's build (MOT_SIM) the one of tools/setup --sim.
if(MOT_SIM)
  set(suffix -sim)
  set(MOT_STARPU_PREFIX "$ENV{MOTLEY_STARPU_SIM}" CACHE PATH
      "motley: prefix of a StarPU >= 1.4 on SimGrid; empty: the one tools/setup --sim built")
else()
  set(MOT_STARPU_PREFIX "$ENV{MOTLEY_STARPU}" CACHE PATH
      "motley: prefix of a StarPU >= 1.4; empty: the one tools/setup built, else pkg-config's own")
endif()
foreach(prefix ${MOT_STARPU_PREFIX} /opt/motley/starpu-1.4${suffix}
        $ENV{HOME}/.local/share/motley/starpu-1.4${suffix})
  if(EXISTS ${prefix}/lib/pkgconfig/starpu-1.4.pc)
    list(PREPEND CMAKE_PREFIX_PATH ${prefix})
    break()
  endif()
endforeach()
find_package(PkgConfig REQUIRED)
set(PKG_CONFIG_USE_CMAKE_PREFIX_PATH ON)
pkg_check_modules(STARPU REQUIRED IMPORTED_TARGET starpu-1.4)
include(CheckSymbolExists)
set(CMAKE_REQUIRED_INCLUDES ${STARPU_INCLUDE_DIRS})
check_symbol_exists(STARPU_SIMGRID starpu_config.h MOT_STARPU_SIMULATES)
unset(CMAKE_REQUIRED_INCLUDES)
if(MOT_SIM AND NOT MOT_STARPU_SIMULATES)
  message(FATAL_ERROR "MOT_SIM needs StarPU on SimGrid: tools/setup --sim builds it")
elseif(MOT_STARPU_SIMULATES AND NOT MOT_SIM)
  message(FATAL_ERROR "this StarPU only simulates: it is for a build of its own with -DMOT_SIM=ON")
endif()
pkg_check_modules(HWLOC REQUIRED IMPORTED_TARGET hwloc)
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)
pkg_check_modules(YAML REQUIRED IMPORTED_TARGET yaml-0.1)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)
find_package(ZLIB REQUIRED)
find_package(Threads REQUIRED)
find_library(MOT_DNNL dnnl REQUIRED)
# Not through pkg-config: cbc.pc lists what only a static link needs.
find_path(MOT_COIN_INCLUDE coin/Cbc_C_Interface.h REQUIRED)
find_library(MOT_CBC CbcSolver REQUIRED)
find_library(MOT_CLP Clp REQUIRED)
pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka)

add_library(mot_dependencies INTERFACE)
target_link_libraries(mot_dependencies INTERFACE PkgConfig::STARPU PkgConfig::HWLOC
  PkgConfig::JANSSON PkgConfig::YAML PkgConfig::PCRE2 PkgConfig::UTF8PROC ZLIB::ZLIB Threads::Threads ${MOT_DNNL}
  ${MOT_CBC} ${MOT_CLP} dl m)
# StarPU's own headers do not pass our warnings: they are system headers to us.
target_include_directories(mot_dependencies SYSTEM INTERFACE ${STARPU_INCLUDE_DIRS}
  ${MOT_COIN_INCLUDE})
if(MOT_OPENMP)
  find_package(OpenMP REQUIRED COMPONENTS C)
  target_link_libraries(mot_dependencies INTERFACE OpenMP::OpenMP_C)
endif()
