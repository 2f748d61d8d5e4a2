#include "tensor/arena.h"

#include "base/check.h"

namespace hearth {

template <typename T>
Handle Arena::put(ShelfOf<T>& shelf, Shelf name, T item) {
    if (!shelf.free.empty()) {
        const std::uint32_t index = shelf.free.back();
        shelf.free.pop_back();
        Slot<T>& slot = shelf.slots[index];
        slot.item = std::move(item);
        slot.used = true;
        return Handle{name, index, slot.generation};
    }
    shelf.slots.push_back(Slot<T>{std::move(item)});
    return Handle{name, static_cast<std::uint32_t>(shelf.slots.size() - 1), 1};
}

template <typename T>
bool Arena::alive(const ShelfOf<T>& shelf, Handle handle) {
    if (handle.index >= shelf.slots.size()) return false;
    const Slot<T>& slot = shelf.slots[handle.index];
    return slot.used && slot.generation == handle.generation;
}

template <typename T>
void Arena::drop(ShelfOf<T>& shelf, Handle handle) {
    CHECK(alive(shelf, handle));
    Slot<T>& slot = shelf.slots[handle.index];
    slot.item = T{};
    slot.used = false;
    ++slot.generation;
    shelf.free.push_back(handle.index);
}

Handle Arena::add_constant(TensorView view) {
    return put(constants_, Shelf::Constant, view);
}

Result<Handle> Arena::add_persistent(std::size_t size_bytes) {
    return put(persistent_, Shelf::Persistent, TRY(Reservation::create(size_bytes)));
}

Handle Arena::add_ephemeral(std::size_t columns, std::size_t row_bytes) {
    return put(ephemeral_, Shelf::Ephemeral, EphemeralValue{columns, row_bytes, 0});
}

void Arena::release(Handle handle) {
    switch (handle.shelf) {
        case Shelf::Constant: return drop(constants_, handle);
        case Shelf::Persistent: return drop(persistent_, handle);
        case Shelf::Ephemeral: return drop(ephemeral_, handle);
    }
}

bool Arena::is_alive(Handle handle) const {
    switch (handle.shelf) {
        case Shelf::Constant: return alive(constants_, handle);
        case Shelf::Persistent: return alive(persistent_, handle);
        case Shelf::Ephemeral: return alive(ephemeral_, handle);
    }
    return false;
}

const TensorView& Arena::constant(Handle handle) const {
    CHECK(handle.shelf == Shelf::Constant && alive(constants_, handle));
    return constants_.slots[handle.index].item;
}

std::byte* Arena::persistent(Handle handle) {
    CHECK(handle.shelf == Shelf::Persistent && alive(persistent_, handle));
    return persistent_.slots[handle.index].item.data();
}

std::size_t Arena::persistent_bytes(Handle handle) const {
    CHECK(handle.shelf == Shelf::Persistent && alive(persistent_, handle));
    return persistent_.slots[handle.index].item.size_bytes();
}

const EphemeralValue& Arena::ephemeral(Handle handle) const {
    CHECK(handle.shelf == Shelf::Ephemeral && alive(ephemeral_, handle));
    return ephemeral_.slots[handle.index].item;
}

void Arena::place(Handle handle, std::size_t offset_bytes) {
    CHECK(handle.shelf == Shelf::Ephemeral && alive(ephemeral_, handle));
    ephemeral_.slots[handle.index].item.offset_bytes = offset_bytes;
}

std::byte* Arena::ephemeral_data(Handle handle) {
    return ephemeral_memory_.data() + ephemeral(handle).offset_bytes;
}

Status Arena::reserve_ephemeral(std::size_t size_bytes) {
    ephemeral_memory_ = TRY(Reservation::create(size_bytes));
    return {};
}

}  // namespace hearth
