package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// pageBytes is how much of a log is read at once.
const pageBytes = 256 << 10

type taskLog struct {
	Task       string `arg:"" help:"Its id, or a unique beginning of it, or its title."`
	Offset     int64  `help:"Begin with this byte of the whole log; a negative number counts from the end." placeholder:"BYTES" xor:"from"`
	Tail       *int   `help:"Begin with the last N lines; 0 for none of those that are there." placeholder:"N" xor:"from"`
	Follow     bool   `short:"f" help:"Print what comes, until the task has ended."`
	Since      string `help:"Only what was written since then: 10m ago, or a moment as of RFC 3339." placeholder:"WHEN"`
	Until      string `help:"Only what was written until then, likewise." placeholder:"WHEN"`
	Attempt    int    `help:"Only what this attempt wrote, counted from 1." placeholder:"N"`
	Stream     string `help:"Only this stream: out or err." placeholder:"NAME" enum:",out,err" default:""`
	Grep       string `help:"Only lines in which this regular expression is found." placeholder:"REGEXP"`
	Timestamps bool   `help:"Put before each line when it was written."`
	Prefix     bool   `help:"Put before each line of which task and stream it is."`
}

// Run prints a log. What is printed is the log's own bytes; on a terminal, without what could drive it.
func (c *taskLog) Run(ctx context.Context, a *app) error {
	tail := -1 // all
	if c.Tail != nil {
		if tail = *c.Tail; tail < 0 {
			return misuse("--tail takes a number of lines", "")
		}
	}
	only, err := c.sieve(time.Now())
	if err != nil {
		return err
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
		at := logPlace{id: t.ID, offset: c.Offset, only: only, notes: a.Stderr, out: bytesOut{out}}
		var lines *lineOut
		if c.Grep != "" || c.Timestamps || c.Prefix || tail > 0 && only.chooses() {
			lines = &lineOut{w: out, grep: only.grep, stamps: c.Timestamps, keep: max(tail, 0)}
			if c.Prefix {
				lines.prefix = t.ID
			}
			at.out = lines
		}
		if tail == 0 || tail > 0 && lines == nil {
			if at.offset, err = tailOffset(ctx, eng, t.ID, tail); err != nil {
				return err
			}
		}
		err = c.print(ctx, a, eng, at)
		if lines != nil {
			err = errors.Join(err, lines.close())
		}
		return err
	})
}

// sieve is which parts of a log are wanted.
func (c *taskLog) sieve(now time.Time) (s logSieve, err error) {
	s = logSieve{attempt: c.Attempt, stream: c.Stream}
	if s.since, err = whenTyped("since", c.Since, now); err != nil {
		return s, err
	}
	if s.until, err = whenTyped("until", c.Until, now); err != nil {
		return s, err
	}
	if c.Grep != "" {
		if s.grep, err = regexp.Compile(c.Grep); err != nil {
			return s, misuse("--grep: "+strings.TrimPrefix(err.Error(), "error parsing regexp: "), "it is a regular expression as of Go: (?i)error finds Error, too")
		}
	}
	return s, nil
}

// whenTyped reads a moment: how long ago, or RFC 3339. Empty: none.
func whenTyped(flag, typed string, now time.Time) (time.Time, error) {
	if typed == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(typed); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	if t, err := time.Parse(time.RFC3339, typed); err == nil {
		return t, nil
	}
	return time.Time{}, misuse(fmt.Sprintf("--%s %q is no moment", flag, typed), "write how long ago, as 10m or 2h, or a moment as 2006-01-02T15:04:05Z")
}

// logPlace is how far a log was printed, and where to.
type logPlace struct {
	id     perdure.TaskID
	offset int64
	only   logSieve
	notes  io.Writer // is told what is missing
	out    interface {
		chunk(engine.Chunk) error
		caughtUp() error // all that was there when the command began was written
	}
}

// print writes the log from a place on, with -f until the task has ended and all of it is written.
func (c *taskLog) print(ctx context.Context, a *app, eng engine.Tasks, at logPlace) error {
	look := func() (bool, error) {
		t, err := eng.Task(ctx, at.id) // before the log, so that an ended task has all of its log
		if err != nil {
			return false, fmt.Errorf("read task %s: %w", at.id, err)
		}
		over := false
		if at.offset, over, err = printLog(ctx, eng, at); err == nil {
			err = at.out.caughtUp()
		}
		return over || t.State.Terminal(), err
	}
	if !c.Follow {
		_, err := look()
		return err
	}
	return a.follow(ctx, pollEvery, look)
}

// printLog writes what is there, and returns the offset of what comes next, and whether that is wanted no more.
func printLog(ctx context.Context, eng engine.Tasks, at logPlace) (next int64, over bool, err error) {
	for {
		log, err := eng.TaskLog(ctx, at.id, at.offset, pageBytes)
		var gone *perdure.Rotated
		if errors.As(err, &gone) {
			fmt.Fprintf(at.notes, "perdure: the log has nothing from byte %d to %d: it was rotated away, for there was more than is kept\n", at.offset, gone.First)
			at.offset = gone.First
			continue
		}
		if err != nil {
			return at.offset, false, fmt.Errorf("read the log of %s: %w", at.id, err)
		}
		for _, chunk := range log.Chunks {
			if !at.only.until.IsZero() && chunk.At.After(at.only.until) {
				return at.offset, true, nil
			}
			if !at.only.takes(chunk) {
				continue
			}
			if err := at.out.chunk(chunk); err != nil {
				return at.offset, false, err
			}
		}
		at.offset = log.Next
		if len(log.Chunks) == 0 {
			return at.offset, false, nil
		}
	}
}

// tailOffset returns where the last lines of a log begin. It reads backwards, so that a long log costs nothing.
func tailOffset(ctx context.Context, eng engine.Tasks, id perdure.TaskID, lines int) (int64, error) {
	log, err := eng.TaskLog(ctx, id, -1, 1)
	if err != nil {
		return 0, fmt.Errorf("read the log of %s: %w", id, err)
	}
	if lines == 0 {
		return log.End, nil
	}
	last := log.End - 1 // a line end at the very end ends the last line
	for to := last; to > 0; {
		from := max(to-pageBytes, 0)
		page, err := readLog(ctx, eng, id, span64{from, to})
		if err != nil {
			return 0, err
		}
		if begin := to - int64(len(page)); begin > from { // what is before it was rotated away
			if i := lastLines(page, &lines); i >= 0 {
				return begin + int64(i) + 1, nil
			}
			return begin, nil
		}
		if i := lastLines(page, &lines); i >= 0 {
			return from + int64(i) + 1, nil
		}
		to = from
	}
	return 0, nil
}

// lastLines takes the line ends of a page off how many are wanted, from behind, and returns the place of the last one; -1: there
// are not so many.
func lastLines(page []byte, lines *int) int {
	for i := bytes.LastIndexByte(page, '\n'); i >= 0; i = bytes.LastIndexByte(page[:i], '\n') {
		if *lines--; *lines == 0 {
			return i
		}
	}
	return -1
}

// span64 is a piece of a log: the bytes from, and those before to.
type span64 struct{ from, to int64 }

// readLog returns a piece of a log; where something of it was rotated away, only what is behind that.
func readLog(ctx context.Context, eng engine.Tasks, id perdure.TaskID, s span64) ([]byte, error) {
	var page []byte
	for at := s.from; at < s.to; {
		log, err := eng.TaskLog(ctx, id, at, int(s.to-at))
		var gone *perdure.Rotated
		if errors.As(err, &gone) {
			page, at = nil, gone.First
			continue
		}
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
