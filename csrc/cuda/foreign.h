// Memory of other libraries on a device.
//
// Note [Memory of others on a device]
// A tensor over memory of another library may be freed while kernels that use it are still to run. Its owner knows
// nothing of them, and may use the memory again as soon as it is told. So it is told when they are done: events are
// recorded on the stream that was current when the memory came in, on those that record_stream() named, and on the
// one that is current when the tensor is freed. What has to wait is looked after when more memory of others comes
// in, and when the host has waited for a device.
//
// Under Note [The GIL guards handles]; to tell an owner may run any code.
#pragma once

#include <cstddef>

#include "core/storage.h"
#include "cuda/driver.h"

namespace tapegrad::cuda {

enum class ForeignKind : uint8_t { Device, Managed };

// Throws ValueError where an address is not memory of a device, as far as the driver knows.
void check_foreign(const char* op, int device, const void* data, ForeignKind kind);
// The device of an address; throws ValueError where there is none.
int device_of_address(const char* op, const void* data);

// Bytes of somebody else. free_owner(owner) runs at the end, see the Note.
Ref<Storage> borrow(int device, void* data, size_t nbytes, void* owner, void (*free_owner)(void*));

// A stream uses the bytes of a storage of borrow(). False, and nothing happens, for others.
bool record_foreign(const Storage& storage, StreamHandle stream);

// Tells owners whose memory is not used any more.
void collect_foreign() noexcept;

// Streams by the numbers that libraries exchange: 1 is the default stream, 2 that of the calling thread, others are
// handles. Throws ValueError for zero, which could be either of the two.
StreamHandle stream_of_number(const char* op, int64_t number);
int64_t number_of_stream(StreamHandle stream);

}  // namespace tapegrad::cuda
