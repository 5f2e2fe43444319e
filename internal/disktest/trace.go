// Package disktest rebuilds what a power cut leaves on a disk, from a recording of what a program did to its files (R5).
//
// It is for tests, and may import nothing of ours. The one thing to know: only what was synced is sure to be there. Of the
// rest each write may be there, may be missing, or may be there in some of its sectors.
package disktest

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
)

// Calls are the system calls that a recording has to hold. The line that makes one is
//
//	strace -f -qq -y -xx -s 16777216 -e trace=CALLS -e signal=none -o FILE PROGRAM
const Calls = "?open,openat,write,pwrite64,ftruncate,fsync,fdatasync,?rename,?renameat,renameat2,?unlink,unlinkat,?mkdir,mkdirat"

// Kind is what an operation does.
type Kind string

// The kinds of operations.
const (
	Create   Kind = "create"   // a new, empty file
	Mkdir    Kind = "mkdir"    //
	Write    Kind = "write"    // bytes at an offset
	Truncate Kind = "truncate" // to a size, which may be more than there was
	Sync     Kind = "sync"     // a file, or a folder with the names in it
	Rename   Kind = "rename"   // over what has the new name
	Unlink   Kind = "unlink"   //
	Say      Kind = "say"      // bytes to a socket: what somebody outside was told
)

// Op is one operation of a recording.
type Op struct {
	Kind   Kind
	Path   string // below the root of the recording; empty: the root itself, or a socket
	To     string // of Rename
	Offset int64  // of Write
	Size   int64  // of Truncate
	Bytes  []byte // of Write and Say
	// Since is, of Sync, how many operations had ended when it began: it makes no others durable.
	Since int
}

// Read reads a recording of one process and keeps what was done below root, an absolute path, and said to sockets.
// Operations stand in the order of their ends; what was said stands where saying it began, since from then on somebody
// may know. A line that cannot be read is an error: a recording with a hole proves nothing.
func Read(r io.Reader, root string) ([]Op, error) {
	t := &trace{root: root, begun: map[string]begun{}, files: map[string]int64{}, open: map[string]*descriptor{}}
	lines := bufio.NewReaderSize(r, 1<<20)
	for n := 1; ; n++ {
		line, err := lines.ReadString('\n')
		if err == io.EOF && line == "" {
			return t.ops, nil
		}
		if err != nil && err != io.EOF {
			return nil, fmt.Errorf("read recording: %w", err)
		}
		if err := t.line(strings.TrimSuffix(line, "\n")); err != nil {
			return nil, fmt.Errorf("read recording, line %d: %w: %.120s", n, err, line)
		}
	}
}

// trace is a recording that is being read.
type trace struct {
	root  string
	ops   []Op
	begun map[string]begun       // by thread: a call that has not ended
	files map[string]int64       // the files that are there, by path, with their sizes
	open  map[string]*descriptor // by number
}

// begun is a call that had not ended when another one was noted.
type begun struct {
	text  string
	since int
	said  bool
}

// descriptor is where plain writes go.
type descriptor struct {
	path   string
	offset int64
	append bool
}

// line takes one line in: a call, the begin of one, or its end.
func (t *trace) line(line string) error {
	thread, text, ok := strings.Cut(line, " ")
	text = strings.TrimLeft(text, " ")
	if !ok || strings.HasPrefix(text, "---") || strings.HasPrefix(text, "+++") {
		return nil
	}
	if head, ok := strings.CutSuffix(text, " <detached ...>"); ok { // the recording ended in this call: what it said may have been heard
		t.say(head)
		delete(t.begun, thread)
		return nil
	}
	if head, ok := strings.CutSuffix(text, " <unfinished ...>"); ok {
		b := begun{text: head, since: len(t.ops)}
		b.said = t.say(head)
		t.begun[thread] = b
		return nil
	}
	since, said := len(t.ops), false
	if strings.HasPrefix(text, "<... ") {
		_, tail, ok := strings.Cut(text, " resumed>")
		if !ok {
			return fmt.Errorf("an end without a begin")
		}
		b := t.begun[thread]
		delete(t.begun, thread)
		text, since, said = b.text+tail, b.since, b.said
	}
	if said || t.say(text) {
		return nil
	}
	return t.call(text, since)
}

// say notes what is written to a socket, and reports whether that is what the call does.
func (t *trace) say(text string) bool {
	args, ok := strings.CutPrefix(text, "write(")
	if !ok || !strings.HasPrefix(angled(args), "socket:") {
		return false
	}
	if said, err := quoted(args); err == nil {
		t.ops = append(t.ops, Op{Kind: Say, Bytes: said})
	}
	return true
}

// call takes in a call that has ended. One that failed did nothing.
func (t *trace) call(text string, since int) error {
	name, rest, ok := strings.Cut(text, "(")
	at := strings.LastIndex(rest, ") = ")
	if at < 0 {
		if at = strings.LastIndex(rest, ")"); at < 0 {
			return fmt.Errorf("not a call")
		}
		if strings.Contains(rest[at:], "= ?") {
			return nil // the process ended in it
		}
	}
	if !ok {
		return fmt.Errorf("not a call")
	}
	args := rest[:at]
	_, result, _ := strings.Cut(rest[at:], "= ")
	if strings.HasPrefix(result, "-") || strings.HasPrefix(result, "?") {
		return nil
	}
	switch name {
	case "open", "openat":
		return t.opened(args, result)
	case "write", "pwrite64":
		return t.written(name, args, result)
	case "ftruncate":
		return t.truncated(args)
	case "fsync", "fdatasync":
		if path, ok := t.below(angled(args)); ok {
			t.ops = append(t.ops, Op{Kind: Sync, Path: path, Since: since})
		}
		return nil
	}
	return t.named(name, args)
}

// opened notes a descriptor, and the file if it is a new one or is emptied.
func (t *trace) opened(args, result string) error {
	number, _, _ := strings.Cut(result, "<")
	delete(t.open, number)
	path, ok := t.below(angled(result))
	if !ok || !strings.Contains(args, "O_RDWR") && !strings.Contains(args, "O_WRONLY") {
		return nil
	}
	size, there := t.files[path]
	switch {
	case !there:
		if !strings.Contains(args, "O_CREAT") {
			return fmt.Errorf("%s is opened, and nobody made it", path)
		}
		t.files[path] = 0
		t.ops = append(t.ops, Op{Kind: Create, Path: path})
	case strings.Contains(args, "O_TRUNC") && size > 0:
		t.files[path] = 0
		t.ops = append(t.ops, Op{Kind: Truncate, Path: path})
	}
	t.open[number] = &descriptor{path: path, append: strings.Contains(args, "O_APPEND")}
	return nil
}

// written notes as many bytes as were taken.
func (t *trace) written(name, args, result string) error {
	path, ok := t.below(angled(args))
	if !ok {
		return nil
	}
	if _, made := t.files[path]; !made {
		return nil // somebody else's, who handed it over: the program's own stderr
	}
	bytes, err := quoted(args)
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(strings.Fields(result)[0])
	if err != nil || n > len(bytes) {
		return fmt.Errorf("%d bytes, of which %q were written", len(bytes), result)
	}
	op := Op{Kind: Write, Path: path, Bytes: bytes[:n]}
	if name == "pwrite64" {
		op.Offset, err = lastNumber(args)
	} else {
		number, _, _ := strings.Cut(args, "<")
		d := t.open[number]
		if d == nil {
			return fmt.Errorf("a descriptor that nobody opened")
		}
		if d.append {
			d.offset = t.files[path]
		}
		op.Offset = d.offset
		d.offset += int64(n)
	}
	t.files[path] = max(t.files[path], op.Offset+int64(n))
	t.ops = append(t.ops, op)
	return err
}

func (t *trace) truncated(args string) error {
	path, ok := t.below(angled(args))
	if !ok {
		return nil
	}
	size, err := lastNumber(args)
	t.files[path] = size
	t.ops = append(t.ops, Op{Kind: Truncate, Path: path, Size: size})
	return err
}

// named notes what is done to a name.
func (t *trace) named(name, args string) error {
	var paths []string
	for text := args; ; {
		_, tail, found := strings.Cut(text, `"`)
		if !found {
			break
		}
		value, rest, _ := strings.Cut(tail, `"`)
		decoded, err := decode(value)
		if err != nil {
			return err
		}
		path, ok := t.below(string(decoded))
		if !ok {
			return nil
		}
		paths, text = append(paths, path), rest
	}
	switch {
	case strings.HasPrefix(name, "mkdir") && len(paths) == 1:
		t.ops = append(t.ops, Op{Kind: Mkdir, Path: paths[0]})
	case strings.HasPrefix(name, "unlink") && len(paths) == 1:
		if _, there := t.files[paths[0]]; !there {
			return nil // a socket, or an empty folder
		}
		delete(t.files, paths[0])
		t.ops = append(t.ops, Op{Kind: Unlink, Path: paths[0]})
	case strings.HasPrefix(name, "rename") && len(paths) == 2:
		t.files[paths[1]] = t.files[paths[0]]
		delete(t.files, paths[0])
		t.ops = append(t.ops, Op{Kind: Rename, Path: paths[0], To: paths[1]})
	default:
		return fmt.Errorf("%s of %d names", name, len(paths))
	}
	return nil
}

// below makes a path relative to the root, if it is below it.
func (t *trace) below(path string) (string, bool) {
	rel, err := filepath.Rel(t.root, path)
	if err != nil || path == "" || rel == ".." || strings.HasPrefix(rel, "../") {
		return "", false
	}
	if rel == "." {
		rel = ""
	}
	return rel, true
}

// angled decodes the first text in angle brackets: what a descriptor stands for. It is empty for what has no name.
func angled(text string) string {
	_, tail, _ := strings.Cut(text, "<")
	inner, after, _ := strings.Cut(tail, ">")
	decoded, err := decode(inner)
	if err != nil || strings.HasPrefix(after, "(deleted)") { // what has no name any more is gone after a power cut
		return ""
	}
	return string(decoded)
}

// quoted decodes the first text in quotes.
func quoted(text string) ([]byte, error) {
	_, tail, _ := strings.Cut(text, `"`)
	inner, after, ok := strings.Cut(tail, `"`)
	if !ok || strings.HasPrefix(after, "...") {
		return nil, fmt.Errorf("the bytes are not all there: record with a larger -s")
	}
	return decode(inner)
}

// decode reads \x2f\x74.
func decode(text string) ([]byte, error) {
	return hex.DecodeString(strings.ReplaceAll(text, `\x`, ""))
}

func lastNumber(args string) (int64, error) {
	return strconv.ParseInt(strings.TrimSpace(args[strings.LastIndex(args, ",")+1:]), 0, 64)
}
