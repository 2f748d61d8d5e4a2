/* Cheapest perfect matching of rows to columns: the Hungarian method by shortest augmenting paths with potentials.
 * Input: n, then the n x n costs row by row. Rows and columns count from 1; column 0 stands for "not matched yet". */
enum { kMaximumSize = 20, kInfinity = 0x3fffffff };

static int size;
static int cost[kMaximumSize + 1][kMaximumSize + 1];
static int row_potential[kMaximumSize + 1];
static int column_potential[kMaximumSize + 1];
static int row_of_column[kMaximumSize + 1];
static int previous_column[kMaximumSize + 1];
static int distance[kMaximumSize + 1]; /* cheapest reduced cost by which a column can be reached from the tree */
static char in_tree[kMaximumSize + 1];

/* Reads the next number; gives where it stopped, or NULL at the end. */
static const char* next_int(const char* text, int* value) {
    return text == NULL ? NULL : hearth_scan_int(text, value);
}

static int read_problem(const char* input) {
    const char* rest = next_int(input, &size);
    if (rest == NULL || size < 1 || size > kMaximumSize) return 0;
    for (int row = 1; row <= size; ++row)
        for (int column = 1; column <= size; ++column) rest = next_int(rest, &cost[row][column]);
    return rest != NULL;
}

/* Adds the column nearest to the tree, shifting the potentials so that its edge becomes free. */
static int extend_tree(int column) {
    int row = row_of_column[column];
    int nearest = 0;
    in_tree[column] = 1;
    for (int other = 1; other <= size; ++other) {
        if (in_tree[other]) continue;
        int reduced = cost[row][other] - row_potential[row] - column_potential[other];
        if (reduced < distance[other]) {
            distance[other] = reduced;
            previous_column[other] = column;
        }
        if (nearest == 0 || distance[other] < distance[nearest]) nearest = other;
    }
    int delta = distance[nearest];
    for (int other = 0; other <= size; ++other) {
        if (in_tree[other]) {
            row_potential[row_of_column[other]] += delta;
            column_potential[other] -= delta;
        } else {
            distance[other] -= delta;
        }
    }
    return nearest;
}

static void augment(int row) {
    for (int column = 0; column <= size; ++column) {
        distance[column] = kInfinity;
        in_tree[column] = 0;
    }
    int column = 0;
    row_of_column[0] = row;
    do {
        column = extend_tree(column);
        printf("  row %d reaches column %d\n", row, column);
    } while (row_of_column[column] != 0);
    while (column != 0) {
        int previous = previous_column[column];
        row_of_column[column] = row_of_column[previous];
        printf("  column %d now belongs to row %d\n", column, row_of_column[column]);
        column = previous;
    }
}

void compute(const char* input) {
    int total = 0;
    if (!read_problem(input)) {
        print_str("expected: n, then n x n costs (n <= 20)\n");
        return;
    }
    for (int row = 1; row <= size; ++row) {
        printf("matching row %d\n", row);
        augment(row);
    }
    for (int column = 1; column <= size; ++column) total += cost[row_of_column[column]][column];
    printf("optimal cost: %d\n", total);
    for (int column = 1; column <= size; ++column) {
        int row = row_of_column[column];
        printf("row %d -> col %d (cost %d)\n", row, column, cost[row][column]);
    }
}
