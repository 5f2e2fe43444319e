// Package linear asks whether what several clients of a store saw at once could have happened one after another (R17,
// I7): claims and settlements of calls and spawn handles, compare-and-set of files, and the first writer of a task's end.
//
// It has tests only and may import nothing of ours outside them. The one thing to know: a commit whose answer was lost
// may have happened or not, and the models allow for both; everything that was answered happened.
package linear
