/* SPDX-License-Identifier: MIT */
/* Whether a test may put its own allocator in the place of the system's. */
#ifndef BP_TEST_OWN_ALLOCATOR_H
#define BP_TEST_OWN_ALLOCATOR_H

/* A sanitizer needs the allocator for itself. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define OWN_ALLOCATOR 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define OWN_ALLOCATOR 0
#endif
#endif
#ifndef OWN_ALLOCATOR
#define OWN_ALLOCATOR 1
#endif

#endif
