/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For the shipped library alone: bind to the oldest version of each libc
 * symbol.  glibc 2.34 moved these from libdl and libpthread into libc under a
 * new version; a container with an older glibc would otherwise not load us.
 */
#ifndef ARGUS_COLLECTOR_OLDGLIBC_H
#define ARGUS_COLLECTOR_OLDGLIBC_H

#include <features.h>

#if defined(ARGUS_OLD_GLIBC) && defined(__GLIBC__)
#if defined(__x86_64__)
#define ARGUS_OLDEST "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define ARGUS_OLDEST "GLIBC_2.17"
#endif
#endif

#ifdef ARGUS_OLDEST
#define ARGUS_BIND_OLD(name) __asm__(".symver " #name "," #name "@" ARGUS_OLDEST)
ARGUS_BIND_OLD(dladdr);
ARGUS_BIND_OLD(dlclose);
ARGUS_BIND_OLD(dlopen);
ARGUS_BIND_OLD(dlsym);
ARGUS_BIND_OLD(pthread_attr_setstacksize);
ARGUS_BIND_OLD(pthread_create);
ARGUS_BIND_OLD(pthread_getspecific);
ARGUS_BIND_OLD(pthread_key_create);
ARGUS_BIND_OLD(pthread_once);
ARGUS_BIND_OLD(pthread_setspecific);
ARGUS_BIND_OLD(pthread_sigmask);
#endif

#endif /* ARGUS_COLLECTOR_OLDGLIBC_H */
