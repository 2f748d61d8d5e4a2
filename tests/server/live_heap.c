// Loaded into a sanitized server: adds to the file $HEARTH_LIVE_HEAP, every second, how many bytes the heap has given
// out and not got back. What the process occupies says little there: nearly all of it the sanitizer keeps for itself.
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

extern size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak));

static void* watch(void* path) {
    FILE* file = fopen(path, "w");
    while (file != NULL) {
        fprintf(file, "%zu\n", __sanitizer_get_current_allocated_bytes());
        fflush(file);
        sleep(1);
    }
    return NULL;
}

__attribute__((constructor)) static void start(void) {
    char* path = getenv("HEARTH_LIVE_HEAP");
    pthread_t thread;
    if (path != NULL && __sanitizer_get_current_allocated_bytes != NULL) pthread_create(&thread, NULL, watch, path);
}
