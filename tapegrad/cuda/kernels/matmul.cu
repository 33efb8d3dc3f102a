// uses: tile.cuh
//
// Matrix products of any dtype and any strides: what csrc/cuda/matmul.cpp launches where NVIDIA's
// library has no product of the kind, or is not there.

// c = alpha * a b + beta * c + bias, for each matrix of a batch.
struct ProductArguments {
  int64 m, n, k;
  int64 tile_columns, tiles;  // of one matrix
  const void *a, *b, *bias;
  void* c;
  int64 a_row, a_column, b_row, b_column, c_row;  // strides
  int64 a_batch, b_batch, c_batch;
  double alpha, beta;
  int64 integer_alpha, integer_beta;
};

template <class S>
struct Product {
  using T = typename Storage<S>::Unsigned;  // sums of integers wrap

  __device__ static T load(const S* data, int64 at) { return T(Storage<S>::load(data[at])); }
  __device__ static void store(S* data, int64 at, T value) {
    data[at] = Storage<S>::store(typename Storage<S>::Compute(value));
  }
  __device__ static T alpha(const ProductArguments& a) {
    if constexpr (Storage<S>::kFloating) return T(a.alpha);
    else return T(a.integer_alpha);
  }
  __device__ static T beta(const ProductArguments& a) {
    if constexpr (Storage<S>::kFloating) return T(a.beta);
    else return T(a.integer_beta);
  }
};

// What is written for a sum of products. Where beta is zero, what was there is not read.
// The factors are of type S, c is of type C.
template <class S, class C>
__device__ void finish_product(const ProductArguments& p, C* c, int64 row, int64 column,
                               typename Product<S>::T sum) {
  using T = typename Product<S>::T;
  if (row >= p.m || column >= p.n) return;
  const int64 at = row * p.c_row + column;
  T value = Product<S>::alpha(p) * sum;
  const T beta = Product<S>::beta(p);
  if (beta != T(0)) value = multiply_add(beta, Product<C>::load(c, at), value);
  if (p.bias) value += Product<S>::load(static_cast<const S*>(p.bias), column);
  Product<C>::store(c, at, value);
}

template <class S, int kPer, class C = S>
__device__ void product(const ProductArguments& p) {
  using T = typename Product<S>::T;
  const int64 matrix = blockIdx.x / p.tiles, tile = blockIdx.x % p.tiles;
  const S* a = static_cast<const S*>(p.a) + matrix * p.a_batch;
  const S* b = static_cast<const S*>(p.b) + matrix * p.b_batch;
  C* c = static_cast<C*>(p.c) + matrix * p.c_batch;
  constexpr int kTile = kTileSide * kPer;
  multiply_tile<T, kPer>(
      tile / p.tile_columns * kTile, tile % p.tile_columns * kTile, 0, p.k, p.a_column == 1,
      p.b_row == 1,
      [&](int64 row, int64 i) {
        return row < p.m ? Product<S>::load(a, row * p.a_row + i * p.a_column) : T(0);
      },
      [&](int64 i, int64 column) {
        return column < p.n ? Product<S>::load(b, i * p.b_row + column * p.b_column) : T(0);
      },
      [&](int64 row, int64 column, T sum) { finish_product<S, C>(p, c, row, column, sum); });
}
