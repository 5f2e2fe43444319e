package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"math"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

func logLaws() []law {
	return []law{
		{"answers_the_offset_of_the_first_byte", logOffsets},
		{"keeps_every_field", logFields},
		{"keeps_binary_bytes", logBytes},
		{"splits_long_output", logSplits},
		{"reads_from_any_offset", logReads},
		{"stops_at_max_bytes", logStops},
		{"refuses_another_attempt", logFence},
		{"is_unknown_without_a_task", unknownLog},
		{"is_empty_at_first", emptyLog},
		{"does_not_touch_the_record", logLeavesRecord},
		{"numbers_concurrent_output", logRace},
		{"takes_back_a_failed_transaction", logAfterFailure},
		{"gives_out_copies", logCopies},
		{"survives_reopening", logSurvives},
		{"says_what_was_left_out", logSkips},
		{"keeps_the_beginning_and_the_end", logRotates},
	}
}

// output adds output under attempt 1 and returns the offset.
func (s *subject) output(id perdure.TaskID, stream, words string) (offset int64) {
	s.Helper()
	s.write(func(tx store.Tx) (err error) {
		offset, err = tx.Tasks().AppendLog(id, 1, stream, []byte(words))
		return err
	})
	return offset
}

// log returns chunks and the end of a log.
func (s *subject) log(id perdure.TaskID, offset int64, max int) (chunks []store.LogChunk, end int64) {
	s.Helper()
	s.read(func(r store.Reader) (err error) {
		chunks, end, err = r.Tasks().ReadLog(id, offset, max)
		return err
	})
	return chunks, end
}

// whole returns all bytes of chunks, and requires that they follow one another from offset on.
func (s *subject) whole(chunks []store.LogChunk, offset int64) []byte {
	s.Helper()
	var all []byte
	for _, c := range chunks {
		if want := offset + int64(len(all)); c.Offset != want || len(c.Bytes) == 0 ||
			len(c.Bytes) > store.MaxLogChunkBytes {
			s.Errorf("a chunk of %d bytes begins at %d, want one at %d", len(c.Bytes), c.Offset, want)
		}
		all = append(all, c.Bytes...)
	}
	return all
}

func logOffsets(s *subject) {
	one, other := s.create(s.newTask(s.session())), s.create(s.newTask(s.session()))
	var offsets []int64
	for _, words := range []string{"one", "", "three", "日本"} {
		offsets = append(offsets, s.output(one.ID, "stdout", words))
	}
	s.output(other.ID, "stdout", "elsewhere")
	offsets = append(offsets, s.output(one.ID, "stderr", ""))

	s.same("offsets", offsets, []int64{0, 3, 3, 8, 14})
	chunks, end := s.log(one.ID, 0, math.MaxInt)
	s.same("end", end, int64(14))
	s.same("log", string(s.whole(chunks, 0)), "onethree日本")
}

func logFields(s *subject) {
	t := s.create(s.newTask(s.session()))
	want := []store.LogChunk{
		{Offset: 0, Stream: "stdout", Attempt: 1, Bytes: []byte("first")},
		{Offset: 5, Stream: "stderr \x00\xff", Attempt: 1, Bytes: []byte("second")},
		{Offset: 11, Stream: "", Attempt: 2, Bytes: []byte("third")},
	}
	for i := range want {
		s.update(t, perdure.TaskUpdate{Attempt: want[i].Attempt - 1, IncrementAttempt: true})
		s.write(func(tx store.Tx) error {
			want[i].At = tx.Now()
			_, err := tx.Tasks().AppendLog(t.ID, want[i].Attempt, want[i].Stream, want[i].Bytes)
			return err
		})
	}

	got, _ := s.log(t.ID, 0, 1000)

	s.same("chunks", got, want)
}

func logBytes(s *subject) {
	t := s.create(s.newTask(s.session()))
	want := make([]byte, 0, 1024)
	for i := range 1024 {
		want = append(want, byte(i*7))
	}
	for _, text := range hostile() {
		want = append(want, text...)
	}

	s.output(t.ID, "stdout", string(want))

	chunks, _ := s.log(t.ID, 0, len(want))
	if !bytes.Equal(s.whole(chunks, 0), want) {
		s.Error("the bytes read back are different")
	}
}

func logSplits(s *subject) {
	t := s.create(s.newTask(s.session()))
	s.output(t.ID, "stdout", "head")
	long := bytes.Repeat([]byte("0123456789abcde"), 3*store.MaxLogChunkBytes/15+1)

	s.same("offset", s.output(t.ID, "stderr", string(long)), int64(4))
	s.same("offset after", s.output(t.ID, "stdout", "tail"), int64(4+len(long)))

	chunks, _ := s.log(t.ID, 4, len(long))
	if !bytes.Equal(s.whole(chunks, 4), long) {
		s.Error("the bytes read back are different")
	}
	for _, c := range chunks {
		s.same("stream", c.Stream, "stderr")
	}
}

// Each window of the log is the same as that of one string.
func logReads(s *subject) {
	t := s.create(s.newTask(s.session()))
	all := ""
	for i, n := range []int{1, 5, 2, 7} {
		words := "abcdefghijklmnop"[len(all) : len(all)+n]
		s.output(t.ID, fmt.Sprint("stream ", i%2), words)
		all += words
	}
	for offset := range len(all) + 3 {
		for _, limit := range []int{0, 1, 4, 5, 6, 14, 15, 16, math.MaxInt} {
			chunks, end := s.log(t.ID, int64(offset), limit)

			from := min(offset, len(all))
			want := all[from : from+min(limit, len(all)-from)]
			what := fmt.Sprintf("%d bytes from %d", limit, offset)
			s.same(what, string(s.whole(chunks, int64(offset))), want)
			s.same(what+": end", end, int64(len(all)))
		}
	}
}

func logStops(s *subject) {
	t := s.create(s.newTask(s.session()))
	long := bytes.Repeat([]byte{'x'}, 2*store.MaxLogChunkBytes)
	s.output(t.ID, "stdout", string(long))
	for _, limit := range []int{1, store.MaxLogChunkBytes - 1, store.MaxLogChunkBytes, store.MaxLogChunkBytes + 1} {
		for _, offset := range []int64{0, 1, store.MaxLogChunkBytes - 1} {
			chunks, _ := s.log(t.ID, offset, limit)
			s.same(fmt.Sprintf("%d bytes from %d", limit, offset), len(s.whole(chunks, offset)), limit)
		}
	}
}

func logFence(s *subject) {
	t := s.create(s.newTask(s.session()))
	s.output(t.ID, "stdout", "first")
	s.update(t, perdure.TaskUpdate{Attempt: 1, IncrementAttempt: true})

	for _, attempt := range []int{0, 1, 3} {
		for _, words := range []string{"late", ""} {
			s.refused(perdure.Lost, func(tx store.Tx) error {
				_, err := tx.Tasks().AppendLog(t.ID, attempt, "stdout", []byte(words))
				return err
			})
		}
	}

	_, end := s.log(t.ID, 0, 100)
	s.same("end", end, int64(5))
}

func unknownLog(s *subject) {
	id := mint[perdure.TaskID](s)

	s.unknown(func(r store.Reader) error { _, _, err := r.Tasks().ReadLog(id, 0, 100); return err })
	s.refused(perdure.NotFound, func(tx store.Tx) error {
		_, err := tx.Tasks().AppendLog(id, 1, "stdout", []byte("x"))
		return err
	})
	s.refused(perdure.NotFound, func(tx store.Tx) error { _, err := tx.Tasks().AppendLog(id, 0, "", nil); return err })
}

func emptyLog(s *subject) {
	t := s.create(s.newTask(s.session()))
	s.output(t.ID, "stdout", "")

	for _, offset := range []int64{0, 1} {
		chunks, end := s.log(t.ID, offset, 100)
		s.same("chunks", chunks, []store.LogChunk{})
		s.same("end", end, int64(0))
	}
}

func logLeavesRecord(s *subject) {
	t := s.create(s.newTask(s.session()))

	s.output(t.ID, "stdout", "words")

	s.same("record", s.task(t.ID), t)
}

func logRace(s *subject) {
	t := s.create(s.newTask(s.session()))
	offsets := make([]int64, nParallel)

	s.together(nParallel, func(i int) error {
		return s.InTx(s.ctx, func(tx store.Tx) (err error) {
			offsets[i], err = tx.Tasks().AppendLog(t.ID, 1, "stdout", fmt.Appendf(nil, "<%2d>", i))
			return err
		})
	})

	chunks, _ := s.log(t.ID, 0, math.MaxInt)
	all := s.whole(chunks, 0)
	s.same("length", len(all), nParallel*4)
	for i, offset := range offsets {
		s.same("bytes at the offset", string(all[offset:offset+4]), fmt.Sprintf("<%2d>", i))
	}
}

func logAfterFailure(s *subject) {
	t := s.create(s.newTask(s.session()))
	s.output(t.ID, "stdout", "kept,")

	s.refused(errOnPurpose, func(tx store.Tx) error {
		if _, err := tx.Tasks().AppendLog(t.ID, 1, "stdout", []byte("not kept,")); err != nil {
			return err
		}
		return errOnPurpose
	})

	s.same("offset", s.output(t.ID, "stdout", "also kept"), int64(5))
	chunks, _ := s.log(t.ID, 0, 100)
	s.same("log", string(s.whole(chunks, 0)), "kept,also kept")
}

func logCopies(s *subject) {
	t := s.create(s.newTask(s.session()))
	given := []byte("words")

	s.write(func(tx store.Tx) error { _, err := tx.Tasks().AppendLog(t.ID, 1, "stdout", given); return err })
	chunks, _ := s.log(t.ID, 0, 100)
	scribble(given, chunks)

	chunks, _ = s.log(t.ID, 0, 100)
	s.same("log", string(s.whole(chunks, 0)), "words")
}

func logSurvives(s *subject) {
	t := s.create(s.newTask(s.session()))
	s.output(t.ID, "stdout", "before ")
	want, _ := s.log(t.ID, 0, 100)

	s.reopen()

	got, _ := s.log(t.ID, 0, 100)
	s.same("chunks", got, want)
	s.same("offset", s.output(t.ID, "stdout", "after"), int64(7))
}

// skip records missing output.
func (s *subject) skip(id perdure.TaskID, n int64) {
	s.Helper()
	s.write(func(tx store.Tx) error { return tx.Tasks().SkipLog(id, 1, n) })
}

// rotated requires that the log was rotated at offset, and continues at first.
func (s *subject) rotated(id perdure.TaskID, offset, first int64) {
	s.Helper()
	var gone *perdure.LogRotated
	err := s.View(s.ctx, func(r store.Reader) error { _, _, err := r.Tasks().ReadLog(id, offset, 10); return err })
	if !errors.As(err, &gone) || gone.First != first || !errors.Is(err, perdure.NotFound) {
		s.Errorf("at %d: %v, want the log to continue at %d", offset, err, first)
	}
}

func logSkips(s *subject) {
	t := s.create(s.newTask(s.session()))
	s.output(t.ID, "stdout", "head")
	s.skip(t.ID, 0)
	s.skip(t.ID, 100_000)
	s.same("offset behind it", s.output(t.ID, "stderr", "tail"), int64(100_004))
	s.refused(perdure.Lost, func(tx store.Tx) error { return tx.Tasks().SkipLog(t.ID, 2, 1) })
	s.refused(perdure.NotFound, func(tx store.Tx) error { return tx.Tasks().SkipLog(mint[perdure.TaskID](s), 1, 1) })

	chunks, end := s.log(t.ID, 2, math.MaxInt)
	s.same("before it", string(s.whole(chunks, 2)), "ad")
	s.same("end", end, int64(100_008))
	for _, offset := range []int64{4, 5, 100_003} {
		s.rotated(t.ID, offset, 100_004)
	}
	chunks, _ = s.log(t.ID, 100_005, 2)
	s.same("behind it", string(s.whole(chunks, 100_005)), "ai")
	chunks, end = s.log(t.ID, 50, 0)
	s.same("nothing asked for", len(chunks), 0)
	s.same("end", end, int64(100_008))
}

// Rotation removes the middle of a log. Missing output makes a log long without writing it.
func logRotates(s *subject) {
	t := s.create(s.newTask(s.session()))
	s.output(t.ID, "stdout", "first")
	s.skip(t.ID, store.LogHeadBytes-5)
	old := s.output(t.ID, "stdout", "old")
	s.skip(t.ID, store.LogTailBytes)
	still := s.output(t.ID, "stdout", "new")
	chunks, _ := s.log(t.ID, old, 3)
	s.same("before it is too long", string(s.whole(chunks, old)), "old")

	s.skip(t.ID, 4<<20)
	last := s.output(t.ID, "stdout", "last")

	s.rotated(t.ID, old, still)
	for offset, want := range map[int64]string{0: "first", still: "new", last: "last"} {
		chunks, _ := s.log(t.ID, offset, 5)
		s.same(fmt.Sprint("at ", offset), string(s.whole(chunks, offset)), want)
	}

	const gap = 10 * (store.LogHeadBytes + store.LogTailBytes) // more may be missing than is kept
	s.skip(t.ID, gap)
	far := s.output(t.ID, "stdout", "far")
	s.same("offset behind all that is kept", far, last+4+gap)
	s.rotated(t.ID, last, far)
	s.rotated(t.ID, far-1, far)
}
