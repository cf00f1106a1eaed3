// Matrix product after Goto and van de Geijn, "Anatomy of high-performance matrix multiplication" (2008).
//
// A tile of C stays in registers while a panel of A and a panel of B stream past, packed in the order of their use:
//
//     A panel: ROWS lines of A side by side           B panel: COLUMNS lines of Bᵀ side by side
//     a00 a10 a20 …  a01 a11 a21 …  a02 …             b00 b01 b02 …  b10 b11 b12 …  b20 …
//
// Blocks of EXTENT lines and DEPTH are packed by all threads together and shared by them; then the threads take
// tiles of C, a few at a time, until there are none left. An A whose rows lie along the depth is read where it is:
// a tile follows ROWS of its rows at once, at less cost than turning them first.
#include "gemm.h"

#include <omp.h>

#include <algorithm>

#include "scratch.h"
#include "transpose.h"

// The registers decide: ROWS × VECTORS sums, VECTORS of B, and what is multiplied with them.
#if defined(__AVX512F__)  // 32 registers
enum { ROWS = 8, VECTORS = 3 };
#elif defined(__aarch64__)  // 32
enum { ROWS = 8, VECTORS = 3 };
#else  // 16
enum { ROWS = 6, VECTORS = 2 };
#endif
enum { COLUMNS = VECTORS * LANES };
enum { DEPTH = 640, EXTENT = 1152 };  // a panel of A stays in the first cache, blocks of A and B in the last
enum { FEW = 8 };                     // rows for which it does not pay to pack B
enum { SMALL = 1 << 18 };             // multiplications that do not pay for waking other threads
enum { STACK = 8 };                   // tiles below each other that use a panel of B while it is near
enum { SIDE = 8 };                    // panels of A packed at once: that many floats × ROWS are whole cache lines
enum { ITEMS_A_THREAD = 8 };          // so that one which is held up leaves its share to the others

struct Block {
  int64_t begin, size;
};

static int64_t parts(int64_t size, int64_t part) { return (size + part - 1) / part; }

// The size of blocks of about equal size, about `most` at most, in whole panels; never 0.
static int64_t block_size(int64_t size, int64_t most, int64_t panel) {
  if (size == 0) return panel;
  return parts(parts(size, parts(size, most)), panel) * panel;
}

static Block block(int64_t begin, int64_t step, int64_t size) { return {begin, std::min(step, size - begin)}; }

// ---- packing

// Lines that are contiguous along the depth are turned in squares. Those beyond `lines` become 0.
template <int WIDTH, int GROUP = 0>
static void pack_along(float* to, const float* from, int64_t line, int64_t lines, int64_t depth) {
  const int width = std::min(WIDTH - GROUP, LANES);
  for (int64_t d = 0; d < depth; d += LANES) {
    const int64_t steps = std::min<int64_t>(LANES, depth - d);
    Vec square[LANES] = {};
#pragma GCC unroll 16
    for (int i = 0; i < width; i++)
      if (GROUP + i < lines) {
        const float* p = from + (GROUP + i) * line + d;
        square[i] = steps == LANES ? load(p) : load_part(p, steps);
        __builtin_prefetch(p + 2 * LANES);  // more streams than the hardware follows by itself
      }
    transpose(square);
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++)
      if (i < steps) memcpy(to + (d + i) * WIDTH + GROUP, &square[i], width * sizeof(float));
  }
  if constexpr (GROUP + LANES < WIDTH) pack_along<WIDTH, GROUP + LANES>(to, from, line, lines, depth);
}

// Lines that are contiguous across are copied.
template <int WIDTH>
static void pack_across(float* to, const float* from, int64_t step, int64_t lines, int64_t depth) {
  const int64_t ahead = 16;  // each step is on another page, out of reach of the hardware's own prefetching
  for (int64_t d = 0; d < depth; d++, to += WIDTH, from += step) {
    if (d + ahead < depth) __builtin_prefetch(from + ahead * step);
    if (lines == WIDTH) {
      memcpy(to, from, WIDTH * sizeof(float));
    } else {
      for (int i = 0; i < WIDTH; i++) to[i] = i < lines ? from[i] : 0.f;
    }
  }
}

template <int WIDTH>
static void pack(float* to, const float* from, int64_t line, int64_t step, int64_t lines, int64_t depth) {
  if (step == 1) return pack_along<WIDTH>(to, from, line, lines, depth);
  pack_across<WIDTH>(to, from, step, lines, depth);
}

// The sums of the lines of one panel of A, by four sums each: one would wait for itself.
static void add_sums(const float* panel, int64_t lines, int64_t depth, float* sums) {
  float total[4][ROWS] = {};
  for (int64_t d = 0; d < depth; d += 4)
    for (int64_t part = 0; part < std::min<int64_t>(4, depth - d); part++)
      for (int i = 0; i < ROWS; i++) total[part][i] += panel[(d + part) * ROWS + i];
  for (int64_t i = 0; i < lines; i++) sums[i] += (total[0][i] + total[1][i]) + (total[2][i] + total[3][i]);
}

// SIDE panels of lines that are contiguous across.
static void pack_side_by_side(float* to, const float* from, int64_t step, int64_t depth) {
  const int64_t ahead = 8, line = 64 / sizeof(float);
  for (int64_t d = 0; d < depth; d++, to += ROWS, from += step) {
    if (d + ahead < depth)
      for (int64_t i = 0; i < SIDE * ROWS; i += line) __builtin_prefetch(from + ahead * step + i);
#pragma GCC unroll 16
    for (int64_t i = 0; i < SIDE; i++) memcpy(to + i * ROWS * depth, from + i * ROWS, ROWS * sizeof(float));
  }
}

static void pack_a(const Product& p, Block rows, Block depth, bool sum, float* packed) {
  const float* const from = p.a.data + rows.begin * p.a.row + depth.begin * p.a.column;
#pragma omp for schedule(dynamic)
  for (int64_t group = 0; group < rows.size; group += SIDE * ROWS) {
    const int64_t end = std::min<int64_t>(group + SIDE * ROWS, rows.size);
    const bool together = p.a.row == 1 && end == group + SIDE * ROWS;
    if (together) pack_side_by_side(packed + group * depth.size, from + group, p.a.column, depth.size);
    for (int64_t i = group; i < end; i += ROWS) {
      const int64_t lines = std::min<int64_t>(ROWS, end - i);
      float *const panel = packed + i * depth.size, *const sums = sum ? p.row_sums + rows.begin + i : nullptr;
      if (!together) pack<ROWS>(panel, from + i * p.a.row, p.a.row, p.a.column, lines, depth.size);
      if (sum && !depth.begin) std::fill_n(sums, lines, 0.f);
      if (sum) add_sums(panel, lines, depth.size, sums);
    }
  }
}

static void pack_b(const Product& p, Block columns, Block depth, float* packed) {
#pragma omp for schedule(dynamic)
  for (int64_t j = 0; j < columns.size; j += COLUMNS) {
    const int64_t first = columns.begin + j, lines = std::min<int64_t>(COLUMNS, columns.size - j);
    const float* from = p.b.data + first * p.b.column + depth.begin * p.b.row;
    pack<COLUMNS>(packed + j * depth.size, from, p.b.column, p.b.row, lines, depth.size);
  }
}

// ---- tiles of C

struct Target {
  float* c;
  int64_t stride;
  const float* bias;
  bool add;
};

// A for a tile: a packed panel, or ROWS rows of the array, `stride` floats apart.
struct Left {
  const float* data;
  int64_t stride;  // 0: packed
};

// HEIGHT × WIDTH vectors. Nothing in here may call a function: it would push the sums out of their registers.
template <int HEIGHT, int WIDTH, bool PACKED>
static void tile(int64_t depth, Left left, const float* b, const Target& to) {
  const float* a = left.data;
  Vec sums[HEIGHT][WIDTH] = {};
#pragma GCC unroll 16
  for (int i = 0; i < HEIGHT; i++) __builtin_prefetch(to.c + i * to.stride, 1);
  for (int64_t d = 0; d < depth; d++, a += PACKED ? ROWS : 1, b += COLUMNS) {
    Vec right[WIDTH];
#pragma GCC unroll 4
    for (int j = 0; j < WIDTH; j++) right[j] = load(b + j * LANES);
#pragma GCC unroll 16
    for (int i = 0; i < HEIGHT; i++)
#pragma GCC unroll 4
      for (int j = 0; j < WIDTH; j++) sums[i][j] += a[PACKED ? i : i * left.stride] * right[j];
  }
#pragma GCC unroll 16
  for (int i = 0; i < HEIGHT; i++)
#pragma GCC unroll 4
    for (int j = 0; j < WIDTH; j++) {
      float* c = to.c + i * to.stride + j * LANES;
      Vec sum = to.bias ? sums[i][j] + load(to.bias + j * LANES) : sums[i][j];
      store(c, to.add ? sum + load(c) : sum);
    }
}

typedef void (*Tile)(int64_t depth, Left a, const float* b, const Target& to);

// The smallest tile that covers `height` rows and `width` vectors.
template <int HEIGHT, int WIDTH, bool PACKED>
static Tile pick(int64_t height, int64_t width) {
  if constexpr (HEIGHT > 1)
    if (height < HEIGHT) return pick<HEIGHT - 1, WIDTH, PACKED>(height, width);
  if constexpr (WIDTH > 1)
    if (width < WIDTH) return pick<HEIGHT, WIDTH - 1, PACKED>(height, width);
  return tile<HEIGHT, WIDTH, PACKED>;
}

// Where the last vector of a row is not whole, the tile goes by way of a buffer.
static void through_buffer(Tile compute, int64_t depth, Left a, const float* b, const Target& to, int64_t height,
                           int64_t width) {
  float buffer[ROWS * COLUMNS];
  compute(depth, a, b, {buffer, COLUMNS, nullptr, false});
  for (int64_t i = 0; i < height; i++)
    for (int64_t j = 0; j < width; j++) {
      const float sum = to.bias ? buffer[i * COLUMNS + j] + to.bias[j] : buffer[i * COLUMNS + j];
      float& c = to.c[i * to.stride + j];
      c = to.add ? sum + c : sum;
    }
}

static void one_tile(int64_t depth, Left a, const float* b, const Target& to, int64_t height, int64_t width) {
  const auto choose = a.stride ? pick<ROWS, VECTORS, false> : pick<ROWS, VECTORS, true>;
  const Tile compute = choose(height, parts(width, LANES));
  if (width % LANES) return through_buffer(compute, depth, a, b, to, height, width);
  compute(depth, a, b, to);
}

static void multiply(const Product& p, Block rows, Block columns, Block depth, Left a, const float* b) {
  const int64_t row = a.stride ? a.stride : depth.size;
  const int64_t tall = STACK * ROWS, stacks = std::max<int64_t>(parts(rows.size, tall), 1);
  const int64_t wide = block_size(columns.size, parts(columns.size * stacks, ITEMS_A_THREAD * omp_get_num_threads()),
                                  COLUMNS);
#pragma omp for schedule(dynamic) collapse(2)
  for (int64_t top = 0; top < rows.size; top += tall)
    for (int64_t left = 0; left < columns.size; left += wide)
      for (int64_t j = left; j < std::min(left + wide, columns.size); j += COLUMNS)
        for (int64_t i = top; i < std::min(top + tall, rows.size); i += ROWS) {
          const int64_t column = columns.begin + j;
          const Target to = {p.c + (rows.begin + i) * p.columns + column, p.columns,
                             p.bias && !depth.begin ? p.bias + column : nullptr, p.accumulate || depth.begin > 0};
          one_tile(depth.size, {a.data + i * row, a.stride}, b + j * depth.size, to,
                   std::min<int64_t>(ROWS, rows.size - i), std::min<int64_t>(COLUMNS, columns.size - j));
        }
}

// A's rows of a block where they are, or packed.
static Left left_of(const Product& p, Block rows, Block depth, bool sum, float* packed) {
  if (p.a.column == 1 && p.a.row > 0 && !p.row_sums)
    return {p.a.data + rows.begin * p.a.row + depth.begin, p.a.row};
  pack_a(p, rows, depth, sum, packed);
  return {packed, 0};
}

void gemm(const Product& p) {
  if (p.rows <= FEW && p.a.column == 1 && p.b.row == 1 && !p.row_sums) return gemm_few_rows(p);
  const int64_t row_step = block_size(p.rows, EXTENT, ROWS), column_step = block_size(p.columns, EXTENT, COLUMNS);
  const int64_t depth_step = block_size(p.depth, DEPTH, 1);
  float* const packed_a = scratch((row_step + column_step) * depth_step);
  float* const packed_b = packed_a + row_step * depth_step;
#pragma omp parallel if (p.rows * p.columns * p.depth >= SMALL)
  for (int64_t j = 0; j == 0 || j < p.columns; j += column_step)
    for (int64_t d = 0; d == 0 || d < p.depth; d += depth_step) {
      const Block columns = block(j, column_step, p.columns), depth = block(d, depth_step, p.depth);
      pack_b(p, columns, depth, packed_b);
      for (int64_t i = 0; i < p.rows; i += row_step) {
        const Block rows = block(i, row_step, p.rows);
        const Left a = left_of(p, rows, depth, p.row_sums && j == 0, packed_a);
        multiply(p, rows, columns, depth, a, packed_b);
      }
    }
}
