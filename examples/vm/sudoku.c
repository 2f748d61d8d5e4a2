/* Sudoku by constraint propagation on sets of candidates (one bit a digit), then search on the cell with the fewest.
 * Input: 81 characters, digits for the clues, 0 or . for empty cells. */
enum { kCells = 81, kAllDigits = 0x1ff };

typedef struct {
    uint16_t candidates[kCells];
} Grid;

static uint8_t unit_cells[27][9]; /* nine rows, nine columns, nine boxes */
static uint8_t cell_units[kCells][3];
static uint8_t peers[kCells][20];
static unsigned guesses;

static void build_units(void) {
    for (int cell = 0; cell < kCells; ++cell) {
        int row = cell / 9;
        int column = cell % 9;
        int box = row / 3 * 3 + column / 3;
        cell_units[cell][0] = (uint8_t)row;
        cell_units[cell][1] = (uint8_t)(9 + column);
        cell_units[cell][2] = (uint8_t)(18 + box);
        unit_cells[row][column] = (uint8_t)cell;
        unit_cells[9 + column][row] = (uint8_t)cell;
        unit_cells[18 + box][row % 3 * 3 + column % 3] = (uint8_t)cell;
    }
    for (int cell = 0; cell < kCells; ++cell) {
        int count = 0;
        for (int i = 0; i < 3; ++i) {
            const uint8_t* unit = unit_cells[cell_units[cell][i]];
            for (int j = 0; j < 9; ++j) {
                int other = unit[j];
                /* Of the box, only what shares neither row nor column is new. */
                int known = i == 2 && (cell_units[other][0] == cell_units[cell][0] ||
                                       cell_units[other][1] == cell_units[cell][1]);
                if (other != cell && !known) peers[cell][count++] = (uint8_t)other;
            }
        }
    }
}

static int has_one_bit(unsigned set) {
    return (set & (set - 1)) == 0;
}

static int assign(Grid* grid, int cell, unsigned digit);

/* Takes a digit from a cell. A cell left with one digit fixes it; a unit left with one place for it fills that place.
 * Gives 0 on a contradiction. */
static int eliminate(Grid* grid, int cell, unsigned digit) {
    unsigned set = grid->candidates[cell];
    if ((set & digit) == 0) return 1;
    set &= ~digit;
    grid->candidates[cell] = (uint16_t)set;
    if (set == 0) return 0;
    if (has_one_bit(set)) {
        for (int i = 0; i < 20; ++i)
            if (!eliminate(grid, peers[cell][i], set)) return 0;
    }
    for (int i = 0; i < 3; ++i) {
        const uint8_t* unit = unit_cells[cell_units[cell][i]];
        int places = 0;
        int place = 0;
        for (int j = 0; j < 9; ++j) {
            if ((grid->candidates[unit[j]] & digit) == 0) continue;
            place = unit[j];
            ++places;
        }
        if (places == 0) return 0;
        if (places == 1 && !assign(grid, place, digit)) return 0;
    }
    return 1;
}

static int assign(Grid* grid, int cell, unsigned digit) {
    for (unsigned other = 1; other <= kAllDigits; other <<= 1)
        if (other != digit && !eliminate(grid, cell, other)) return 0;
    return (grid->candidates[cell] & digit) != 0;
}

/* The undecided cell with the fewest candidates, or -1 when every cell is decided. */
static int best_cell(const Grid* grid) {
    int best = -1;
    int fewest = 10;
    for (int cell = 0; cell < kCells; ++cell) {
        int count = 0;
        for (unsigned set = grid->candidates[cell]; set != 0; set &= set - 1) ++count;
        if (count > 1 && count < fewest) {
            fewest = count;
            best = cell;
        }
    }
    return best;
}

/* One grid a depth of the search: too much for the machine's small stack. */
static Grid saved[kCells];

static int search(Grid* grid, int depth) {
    int cell = best_cell(grid);
    if (cell < 0) return 1;
    for (unsigned set = grid->candidates[cell]; set != 0; set &= set - 1) {
        saved[depth] = *grid;
        ++guesses;
        if (assign(grid, cell, set & (0u - set)) && search(grid, depth + 1)) return 1;
        *grid = saved[depth];
    }
    return 0;
}

static void print_grid(const Grid* grid) {
    for (int cell = 0; cell < kCells; ++cell) {
        unsigned set = grid->candidates[cell];
        int digit = 0;
        while (set != 0) {
            ++digit;
            set >>= 1;
        }
        putchar('0' + digit);
    }
    putchar('\n');
}

void compute(const char* input) {
    static Grid grid;
    int clues = 0;
    int decided = 0;
    int possible = 1;
    if (str_len(input) != kCells) {
        print_str("expected 81 characters\n");
        return;
    }
    printf("puzzle: %s\n", input);
    build_units();
    for (int cell = 0; cell < kCells; ++cell) grid.candidates[cell] = kAllDigits;
    for (int cell = 0; cell < kCells && possible; ++cell) {
        if (input[cell] < '1' || input[cell] > '9') continue;
        ++clues;
        possible = assign(&grid, cell, 1u << (input[cell] - '1'));
    }
    for (int cell = 0; cell < kCells; ++cell) decided += has_one_bit(grid.candidates[cell]);
    printf("clues: %d\n", clues);
    if (possible) printf("propagated: %d/81\n", decided);
    if (possible && search(&grid, 0)) {
        if (guesses != 0) printf("guesses: %u\n", guesses);
        print_str("solved!\n");
        print_grid(&grid);
    } else {
        print_str("no solution\n");
    }
}
