//! Selection and unstable sorting with the order of equal elements of libstdc++, and so of PyTorch's `topk` and
//! `mode`.
//!
//! Rust's own algorithms are as fast but order equal elements differently, and indices of equal values are visible
//! results. `before` is a strict weak order, or any comparison for at most 16 elements. All functions work in place.

/// Move the first `k` elements to the front, sorted. Uses a heap of `k` elements, then a heap sort.
pub(crate) fn partial_sort<E: Copy>(a: &mut [E], k: usize, before: &impl Fn(&E, &E) -> bool) {
    heap_select(a, k, before);
    sort_heap(&mut a[..k], before);
}

/// Move the element of rank `nth` to position `nth`, with smaller elements before it.
pub(crate) fn nth_element<E: Copy>(a: &mut [E], nth: usize, before: &impl Fn(&E, &E) -> bool) {
    let (mut low, mut high) = (0, a.len());
    let mut depth = depth_limit(a.len());
    while high - low > 3 {
        if depth == 0 {
            heap_select(&mut a[low..high], nth + 1 - low, before);
            a.swap(low, nth);
            return;
        }
        depth -= 1;
        let cut = low + partition(&mut a[low..high], before);
        if cut <= nth {
            low = cut;
        } else {
            high = cut;
        }
    }
    insertion_sort(&mut a[low..high], before);
}

/// Sort by quick sort that falls back on heap sort, and ends with insertion sort.
pub(crate) fn introsort<E: Copy>(a: &mut [E], before: &impl Fn(&E, &E) -> bool) {
    if a.len() < 2 {
        return;
    }
    introsort_loop(a, depth_limit(a.len()), before);
    let guarded = a.len().min(SMALL);
    insertion_sort(&mut a[..guarded], before);
    for i in guarded..a.len() {
        insert_unguarded(a, i, before);
    }
}

/// Parts shorter than this are left to the final insertion sort.
const SMALL: usize = 16;

fn depth_limit(n: usize) -> usize {
    2 * n.max(1).ilog2() as usize
}

fn introsort_loop<E: Copy>(mut a: &mut [E], mut depth: usize, before: &impl Fn(&E, &E) -> bool) {
    while a.len() > SMALL {
        if depth == 0 {
            let n = a.len();
            return partial_sort(a, n, before);
        }
        depth -= 1;
        let cut = partition(a, before);
        let (left, right) = a.split_at_mut(cut);
        introsort_loop(right, depth, before);
        a = left;
    }
}

/// Partition around the median of the second, middle and last elements. Return the start of the right part.
fn partition<E: Copy>(a: &mut [E], before: &impl Fn(&E, &E) -> bool) -> usize {
    let (x, y, z) = (1, a.len() / 2, a.len() - 1);
    let lt = |i: usize, j: usize| before(&a[i], &a[j]);
    let median = if lt(x, y) {
        if lt(y, z) {
            y
        } else if lt(x, z) {
            z
        } else {
            x
        }
    } else if lt(x, z) {
        x
    } else if lt(y, z) {
        z
    } else {
        y
    };
    a.swap(0, median);
    let pivot = a[0];
    let (mut i, mut j) = (1, a.len());
    loop {
        while before(&a[i], &pivot) {
            i += 1;
        }
        j -= 1;
        while before(&pivot, &a[j]) {
            j -= 1;
        }
        if i >= j {
            return i;
        }
        a.swap(i, j);
        i += 1;
    }
}

fn insertion_sort<E: Copy>(a: &mut [E], before: &impl Fn(&E, &E) -> bool) {
    for i in 1..a.len() {
        if before(&a[i], &a[0]) {
            a[..=i].rotate_right(1);
        } else {
            insert_unguarded(a, i, before);
        }
    }
}

/// Move element `i` left to its place. An element further left must not come after it.
fn insert_unguarded<E: Copy>(a: &mut [E], i: usize, before: &impl Fn(&E, &E) -> bool) {
    let v = a[i];
    let mut j = i;
    while before(&v, &a[j - 1]) {
        a[j] = a[j - 1];
        j -= 1;
    }
    a[j] = v;
}

/// Move the first `k` elements to the front as a heap, with the last of them on top.
fn heap_select<E: Copy>(a: &mut [E], k: usize, before: &impl Fn(&E, &E) -> bool) {
    let (heap, rest) = a.split_at_mut(k);
    for parent in (0..k / 2).rev() {
        let v = heap[parent];
        sift(heap, parent, v, before);
    }
    for x in rest {
        if before(x, &heap[0]) {
            let v = std::mem::replace(x, heap[0]);
            sift(heap, 0, v, before);
        }
    }
}

fn sort_heap<E: Copy>(a: &mut [E], before: &impl Fn(&E, &E) -> bool) {
    for end in (1..a.len()).rev() {
        let v = a[end];
        a[end] = a[0];
        sift(&mut a[..end], 0, v, before);
    }
}

/// Move the hole at `hole` down to a leaf along the larger children, then `v` up from there.
fn sift<E: Copy>(heap: &mut [E], mut hole: usize, v: E, before: &impl Fn(&E, &E) -> bool) {
    let (top, n) = (hole, heap.len());
    let mut child = hole;
    while child < (n - 1) / 2 {
        child = 2 * (child + 1);
        if before(&heap[child], &heap[child - 1]) {
            child -= 1;
        }
        heap[hole] = heap[child];
        hole = child;
    }
    if n % 2 == 0 && child == (n - 2) / 2 {
        child = 2 * child + 1;
        heap[hole] = heap[child];
        hole = child;
    }
    while hole > top {
        let parent = (hole - 1) / 2;
        if !before(&heap[parent], &v) {
            break;
        }
        heap[hole] = heap[parent];
        hole = parent;
    }
    heap[hole] = v;
}

/// Run Hoare's quick select with a median of three, as PyTorch's `kthvalue` does. The element of rank `k` ends at
/// position `k`.
pub(crate) fn quick_select<E: Copy>(a: &mut [E], k: usize, after: &impl Fn(&E, &E) -> bool) {
    let (mut low, mut high) = (0, a.len() - 1);
    loop {
        if high <= low {
            return;
        }
        if high == low + 1 {
            if after(&a[low], &a[high]) {
                a.swap(low, high);
            }
            return;
        }
        // Now a[low + 1] <= a[low] <= a[high], and the pivot at `low` is their median.
        a.swap(low + (high - low) / 2, low + 1);
        for (i, j) in [(low + 1, high), (low, high), (low + 1, low)] {
            if after(&a[i], &a[j]) {
                a.swap(i, j);
            }
        }
        let pivot = a[low];
        let (mut i, mut j) = (low + 1, high);
        loop {
            i += 1;
            while after(&pivot, &a[i]) {
                i += 1;
            }
            j -= 1;
            while after(&a[j], &pivot) {
                j -= 1;
            }
            if j < i {
                break;
            }
            a.swap(i, j);
        }
        a.swap(low, j);
        if j <= k {
            low = i;
        }
        if j >= k {
            high = j.saturating_sub(1);
        }
    }
}
