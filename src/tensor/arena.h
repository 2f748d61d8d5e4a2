// The Arena: every byte a graph touches, on three shelves, behind handles that are checked before they are followed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/memory.h"
#include "base/result.h"
#include "tensor/tensor.h"

namespace hearth {

enum class Shelf : std::uint8_t {
    Constant,    // weights, by reference into the mapped file: never copied
    Persistent,  // state that outlives a step
    Ephemeral,   // activations: offsets planned once, bytes shared by values whose lives do not overlap
};

// Names bytes in an Arena. It survives the Arena's growth; once released it is stale, and using it is caught.
struct Handle {
    Shelf shelf = Shelf::Constant;
    std::uint32_t index = 0;
    std::uint32_t generation = 0;  // 0: names nothing

    explicit operator bool() const { return generation != 0; }
    bool operator==(const Handle&) const = default;
};

// An ephemeral value has as many rows as the step has; only its row is fixed.
struct EphemeralValue {
    std::size_t columns = 0;
    std::size_t row_bytes = 0;
    std::size_t offset_bytes = 0;  // on the ephemeral shelf, once planned
};

class Arena {
public:
    Handle add_constant(TensorView view);
    Result<Handle> add_persistent(std::size_t size_bytes);  // zero pages, committed when first touched
    Handle add_ephemeral(std::size_t columns, std::size_t row_bytes);

    // Makes the handle stale; the slot is used again under the next generation.
    void release(Handle handle);
    bool is_alive(Handle handle) const;

    // Each stops the program on a stale handle or a handle of another shelf: that is our own bug.
    const TensorView& constant(Handle handle) const;
    std::byte* persistent(Handle handle);
    std::size_t persistent_bytes(Handle handle) const;
    const EphemeralValue& ephemeral(Handle handle) const;
    void place(Handle handle, std::size_t offset_bytes);
    std::byte* ephemeral_data(Handle handle);

    // The ephemeral shelf: one reservation of address space; memory is committed where a step touches it.
    Status reserve_ephemeral(std::size_t size_bytes);
    std::size_t ephemeral_bytes() const { return ephemeral_memory_.size_bytes(); }

private:
    template <typename T>
    struct Slot {
        T item;
        std::uint32_t generation = 1;
        bool used = true;
    };
    template <typename T>
    struct ShelfOf {
        std::vector<Slot<T>> slots;
        std::vector<std::uint32_t> free;
    };
    template <typename T>
    static Handle put(ShelfOf<T>& shelf, Shelf name, T item);
    template <typename T>
    static void drop(ShelfOf<T>& shelf, Handle handle);
    template <typename T>
    static bool alive(const ShelfOf<T>& shelf, Handle handle);

    ShelfOf<TensorView> constants_;
    ShelfOf<Reservation> persistent_;
    ShelfOf<EphemeralValue> ephemeral_;
    Reservation ephemeral_memory_;
};

}  // namespace hearth
