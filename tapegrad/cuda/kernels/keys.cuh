// Sort keys: every dtype as unsigned integers of its size whose order is the wanted order.

template <bool kFirst, class A, class B>
struct Choose {
  using type = A;
};
template <class A, class B>
struct Choose<false, A, B> {
  using type = B;
};

template <int kBytes>
using UnsignedOf = typename Choose<
    kBytes == 1, unsigned char,
    typename Choose<kBytes == 2, unsigned short,
                    typename Choose<kBytes == 4, unsigned, uint64>::type>::type>::type;

// The bits of an element.
template <class S>
using KeyBits = UnsignedOf<sizeof(S)>;

template <class S>
inline constexpr bool kIsUnsigned = kSame<S, bool> || kSame<S, unsigned char> ||
                                    kSame<S, unsigned short> || kSame<S, unsigned> ||
                                    kSame<S, uint64>;

// Infinity's bits, which only NaN's exceed: exponent all ones, mantissa zero.
template <class S>
inline constexpr uint64 kInfinityBits = 0;
template <>
inline constexpr uint64 kInfinityBits<double> = 0x7ff0000000000000u;
template <>
inline constexpr uint64 kInfinityBits<float> = 0x7f800000u;
template <>
inline constexpr uint64 kInfinityBits<BFloat16> = 0x7f80u;
template <>
inline constexpr uint64 kInfinityBits<Half> = 0x7c00u;

// NaN is the greatest of values, the two zeros are equal; descending turns the order round.
template <class S>
__device__ inline KeyBits<S> ordered(KeyBits<S> bits, bool descending) {
  using Key = KeyBits<S>;
  constexpr Key kSign = static_cast<Key>(Key(1) << (8 * sizeof(S) - 1));
  Key key;
  if constexpr (kIsUnsigned<S>) {
    key = bits;
  } else if constexpr (kInfinityBits<S> == 0) {
    key = static_cast<Key>(bits ^ kSign);
  } else {
    const Key magnitude = static_cast<Key>(bits & static_cast<Key>(~kSign));
    const bool negative = bits > kSign;  // minus zero is not
    key = negative ? static_cast<Key>(~bits) : static_cast<Key>(magnitude | kSign);
    if (magnitude > static_cast<Key>(kInfinityBits<S>)) key = static_cast<Key>(~Key(0));
  }
  return descending ? static_cast<Key>(~key) : key;
}
