package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// pageBytes is how much of a log is read at once.
const pageBytes = 256 << 10

type taskLog struct {
	Task   string `arg:"" help:"Its id, or a unique beginning of it, or its title."`
	Offset int64  `help:"Begin with this byte of the whole log; a negative number counts from the end." placeholder:"BYTES" xor:"from"`
	Tail   int    `help:"Begin with the last N lines." placeholder:"N" xor:"from"`
	Follow bool   `short:"f" help:"Print what comes, until the task has ended."`
}

// Run prints a log. What is printed is the log's own bytes; on a terminal, without what could drive it.
func (c *taskLog) Run(ctx context.Context, a *app) error {
	if c.Tail < 0 {
		return misuse("--tail takes a number of lines", "")
	}
	var out io.Writer = a.out
	if a.Terminal.Stdout && !a.flags.Raw {
		safe := &plainWriter{w: a.out}
		defer safe.Close()
		out = safe
	}
	return a.read(ctx, func(eng Engine) error {
		t, err := a.task(ctx, eng, c.Task)
		if err != nil {
			return err
		}
		offset := c.Offset
		if c.Tail > 0 {
			if offset, err = tailOffset(ctx, eng, t.ID, c.Tail); err != nil {
				return err
			}
		}
		return c.print(ctx, a, eng, logPlace{t.ID, offset, out})
	})
}

// logPlace is how far a log was printed, and where to.
type logPlace struct {
	id     perdure.TaskID
	offset int64
	out    io.Writer
}

// print writes the log from a place on, with -f until the task has ended and all of it is written.
func (c *taskLog) print(ctx context.Context, a *app, eng engine.Tasks, at logPlace) error {
	look := func() (bool, error) {
		t, err := eng.Task(ctx, at.id) // before the log, so that an ended task has all of its log
		if err != nil {
			return false, fmt.Errorf("read task %s: %w", at.id, err)
		}
		at.offset, err = printLog(ctx, eng, at)
		return t.State.Terminal(), err
	}
	if !c.Follow {
		_, err := look()
		return err
	}
	return a.follow(ctx, pollEvery, look)
}

// printLog writes what is there, and returns the offset of what comes next.
func printLog(ctx context.Context, eng engine.Tasks, at logPlace) (int64, error) {
	for {
		log, err := eng.TaskLog(ctx, at.id, at.offset, pageBytes)
		if err != nil {
			return at.offset, fmt.Errorf("read the log of %s: %w", at.id, err)
		}
		for _, chunk := range log.Chunks {
			if _, err := at.out.Write(chunk.Bytes); err != nil {
				return at.offset, err
			}
		}
		at.offset = log.Next
		if len(log.Chunks) == 0 {
			return at.offset, nil
		}
	}
}

// tailOffset returns where the last lines of a log begin. It reads backwards, so that a long log costs nothing.
func tailOffset(ctx context.Context, eng engine.Tasks, id perdure.TaskID, lines int) (int64, error) {
	log, err := eng.TaskLog(ctx, id, -1, 1)
	if err != nil {
		return 0, fmt.Errorf("read the log of %s: %w", id, err)
	}
	last := log.End - 1 // a line end at the very end ends the last line
	for to := last; to > 0; {
		from := max(to-pageBytes, 0)
		page, err := readLog(ctx, eng, id, span64{from, to})
		if err != nil {
			return 0, err
		}
		for i := bytes.LastIndexByte(page, '\n'); i >= 0; i = bytes.LastIndexByte(page[:i], '\n') {
			if lines--; lines == 0 {
				return from + int64(i) + 1, nil
			}
		}
		to = from
	}
	return 0, nil
}

// span64 is a piece of a log: the bytes from, and those before to.
type span64 struct{ from, to int64 }

func readLog(ctx context.Context, eng engine.Tasks, id perdure.TaskID, s span64) ([]byte, error) {
	var page []byte
	for at := s.from; at < s.to; {
		log, err := eng.TaskLog(ctx, id, at, int(s.to-at))
		if err != nil {
			return nil, fmt.Errorf("read the log of %s: %w", id, err)
		}
		if len(log.Chunks) == 0 {
			break
		}
		for _, chunk := range log.Chunks {
			page = append(page, chunk.Bytes...)
		}
		at = log.Next
	}
	return page, nil
}
