// Package crashfs reconstructs what a power cut leaves on a disk, from a recording of what a
// program did to its files.
//
// It is for tests, and may import none of our packages. The one thing to know: only synced data is
// certain to survive. Every other write may survive, be lost, or survive in some of its sectors.
package crashfs

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
)

// Calls are the system calls that a recording must contain. The command that records them is
//
//	strace -f -qq -y -xx -s 16777216 -e trace=CALLS -e signal=none -o FILE PROGRAM
const Calls = "?open,openat,write,pwrite64,ftruncate,fsync,fdatasync,?rename,?renameat,renameat2,?unlink,unlinkat,?mkdir,mkdirat"

// Kind is the kind of an operation.
type Kind string

// The kinds of operations.
const (
	Create      Kind = "create"   // a new, empty file
	Mkdir       Kind = "mkdir"    //
	Write       Kind = "write"    // bytes at an offset
	Truncate    Kind = "truncate" // to a size, which may be larger than before
	Sync        Kind = "sync"     // a file, or the names in a folder
	Rename      Kind = "rename"   // replaces a file with the new name
	Unlink      Kind = "unlink"   //
	SocketWrite Kind = "say"      // bytes written to a socket: what others have learned
)

// Op is one operation of a recording.
type Op struct {
	Kind   Kind
	Path   string // relative to the root of the recording; empty: the root itself, or a socket
	To     string // of Rename
	Offset int64  // of Write
	Size   int64  // of Truncate
	Bytes  []byte // of Write and Say
	// Since is, for Sync, the number of operations that had ended when it started: it makes no
	// later ones durable.
	Since int
}

// Read reads a recording of one process. It keeps operations on files below root, an absolute path,
// and writes to sockets. Operations are ordered by their ends; writes to sockets by their starts,
// because from then on another process may have read them. A line that cannot be parsed is an
// error, because a recording with a gap proves nothing.
func Read(r io.Reader, root string) ([]Op, error) {
	t := &trace{root: root, begun: map[string]pendingCall{}, files: map[string]int64{}, open: map[string]*descriptor{}}
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
	begun map[string]pendingCall // by thread: a call that has not ended
	files map[string]int64       // existing files, by path, with their sizes
	open  map[string]*descriptor // by number
}

// pendingCall is a call that had not ended when another one was recorded.
type pendingCall struct {
	text     string
	since    int
	isOutput bool
}

// descriptor is the target of plain writes.
type descriptor struct {
	path   string
	offset int64
	append bool
}

// line handles one line: a call, the start of one, or its end.
func (t *trace) line(line string) error {
	thread, text, ok := strings.Cut(line, " ")
	text = strings.TrimLeft(text, " ")
	if !ok || strings.HasPrefix(text, "---") || strings.HasPrefix(text, "+++") {
		return nil
	}
	// The recording ended during this call: others may have read what it wrote.
	if head, ok := strings.CutSuffix(text, " <detached ...>"); ok {
		t.socketWrite(head)
		delete(t.begun, thread)
		return nil
	}
	if head, ok := strings.CutSuffix(text, " <unfinished ...>"); ok {
		b := pendingCall{text: head, since: len(t.ops)}
		b.isOutput = t.socketWrite(head)
		t.begun[thread] = b
		return nil
	}
	since, said := len(t.ops), false
	if strings.HasPrefix(text, "<... ") {
		_, tail, ok := strings.Cut(text, " resumed>")
		if !ok {
			return fmt.Errorf("end of a call without a start")
		}
		b := t.begun[thread]
		delete(t.begun, thread)
		text, since, said = b.text+tail, b.since, b.isOutput
	}
	if said || t.socketWrite(text) {
		return nil
	}
	return t.call(text, since)
}

// socketWrite records a write to a socket, and reports whether the call is one.
func (t *trace) socketWrite(text string) bool {
	args, ok := strings.CutPrefix(text, "write(")
	if !ok || !strings.HasPrefix(angled(args), "socket:") {
		return false
	}
	if said, err := quoted(args); err == nil {
		t.ops = append(t.ops, Op{Kind: SocketWrite, Bytes: said})
	}
	return true
}

// call handles a call that has ended. A failed call did nothing.
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

// opened records a descriptor, and the file if it is new or truncated.
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
			return fmt.Errorf("%s is opened but was never created", path)
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

// written records the bytes that were written.
func (t *trace) written(name, args, result string) error {
	path, ok := t.below(angled(args))
	if !ok {
		return nil
	}
	if _, made := t.files[path]; !made {
		return nil // inherited, such as the program's own stderr
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
			return fmt.Errorf("unknown descriptor")
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

// named records a change of a name.
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

// below returns a path relative to the root, if it is below the root.
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

// angled decodes the first text in angle brackets, which names a descriptor. It is empty if the
// file has no name.
func angled(text string) string {
	_, tail, _ := strings.Cut(text, "<")
	inner, after, _ := strings.Cut(tail, ">")
	decoded, err := decode(inner)
	if err != nil || strings.HasPrefix(after, "(deleted)") { // a file without a name is gone after a power cut
		return ""
	}
	return string(decoded)
}

// quoted decodes the first text in quotes.
func quoted(text string) ([]byte, error) {
	_, tail, _ := strings.Cut(text, `"`)
	inner, after, ok := strings.Cut(tail, `"`)
	if !ok || strings.HasPrefix(after, "...") {
		return nil, fmt.Errorf("the bytes are truncated: record with a larger -s")
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
