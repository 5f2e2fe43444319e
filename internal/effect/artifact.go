package effect

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/sessionfile"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

const (
	logLimitChars    = 262_144 // of output.log, including prefixes
	resultLimitBytes = 8 << 20 // of result.json
	rawLimitBytes    = 8 << 20 // of raw.txt
)

// artifactPaths holds the paths of a run's files. A path is empty if its file could not be written.
type artifactPaths struct{ log, result, raw string }

// The artifacts that a task's record names.
const (
	logFile    = "output.log"
	resultFile = "result.json"
	rawFile    = "raw.txt"
)

// note records the path of a file that was written.
func (p *artifactPaths) note(name string) {
	switch path.Base(name) {
	case logFile:
		p.log = name
	case resultFile:
		p.result = name
	case rawFile:
		p.raw = name
	}
}

// meta is the content of meta.json.
type meta struct {
	Status          perdure.TaskState `json:"status"`
	ErrorKind       perdure.ErrorKind `json:"error_kind,omitempty"`
	Attempt         int               `json:"attempt"`
	CreatedAt       time.Time         `json:"created_at"`
	StartedAt       time.Time         `json:"started_at"`
	FinishedAt      time.Time         `json:"finished_at"`
	ExitCode        *int              `json:"exit_code,omitempty"`
	LogBytes        int64             `json:"log_bytes"`
	LogTruncated    bool              `json:"log_truncated"`
	ResultBytes     int               `json:"result_bytes"`
	ResultTruncated bool              `json:"result_truncated"`
}

// artifacts returns the files of an attempt that ended. The runtime chooses their names, so no
// secret is in them.
func (e *Effects) artifacts(ctx context.Context, t perdure.Task, v verdict, begins logPage) []tool.FileWrite {
	log, truncated, end, err := e.outputLog(ctx, t, v, begins)
	if err != nil {
		e.core.Log.Error("task log not read", "task", t.ID, "error", err)
	}
	m := meta{
		Status: v.update.State, Attempt: t.Attempt, CreatedAt: t.CreatedAt,
		StartedAt: t.StartedAt, FinishedAt: time.Now().UTC(),
		ExitCode: v.code, LogBytes: end, LogTruncated: truncated,
		ResultBytes: v.body.bytes, ResultTruncated: v.body.cut,
	}
	if v.update.Error != nil {
		m.ErrorKind = v.update.Error.Kind
	}
	dir := t.ArtifactDir() + "/"
	files := []tool.FileWrite{
		{Path: dir + logFile, Content: []byte(log)}, {Path: dir + resultFile, Content: v.body.text},
		{Path: dir + "meta.json", Content: prettyJSON(m)},
	}
	if v.raw != nil && truncated {
		files = append(files, tool.FileWrite{Path: dir + rawFile,
			Content: []byte((*v.raw)[:min(len(*v.raw), rawLimitBytes)])})
	}
	return files
}

// fitsRecord reports a call of a host whose record already holds everything about its end: no
// output, and a short result. Artifacts would only repeat the record, so none are written.
func fitsRecord(t perdure.Task, v verdict) bool {
	return t.ReadByCaller() && v.noOutput && v.raw == nil && v.tail == "" && v.update.State == perdure.TaskSucceeded &&
		v.update.Result != "" && v.update.Result == perdure.ShortResult(v.result.Result, "")
}

// publish writes artifacts, each fenced by the attempt. An artifact that cannot be written does not
// prevent the end of the run; its name is returned in missing. Lost: another attempt owns the task
// and its files.
func (e *Effects) publish(t perdure.Task, files []tool.FileWrite) (paths artifactPaths, missing string, lost error) {
	fence := func(r store.Reader) error {
		_, err := owned(r, t)
		return err
	}
	for _, w := range files {
		err := e.writeFenced(callOfTask(t), w, fence)
		switch {
		case errors.Is(err, perdure.Lost):
			return paths, missing, err
		case err != nil:
			e.core.Log.Error("artifact not written", "task", t.ID, "path", w.Path, "error", err)
			missing = strings.TrimPrefix(missing+", "+path.Base(w.Path), ", ")
		default:
			paths.note(w.Path)
		}
	}
	return paths, missing, nil
}

// publishInTx is publish inside the commit that ends the attempt, for files stored in the store:
// all of them are written, or the commit fails.
func (e *Effects) publishInTx(tx store.Tx, t perdure.Task, files []tool.FileWrite) (paths artifactPaths, err error) {
	if len(files) == 0 {
		return paths, nil
	}
	if err := sessionfile.New(e.core.Work, t.Session, true).Recording(callOfTask(t)).WriteIn(tx, files...); err != nil {
		return paths, err
	}
	for _, w := range files {
		paths.note(w.Path)
	}
	return paths, nil
}

// files opens the files of a call's session, as the model sees them and as the runtime writes them.
// Every change appends file.written: in the same commit if files are stored in the store, otherwise
// right after it.
func (e *Effects) files(by tool.Call) (model, runtime tool.Files) {
	model, runtime = e.core.Files(by.Session)
	return e.journaled(model, by), e.journaled(runtime, by)
}

// journaled returns files whose changes are recorded in the journal.
func (e *Effects) journaled(files tool.Files, by tool.Call) tool.Files {
	switch f := files.(type) {
	case nil, tool.DisabledFiles:
		return files
	case *sessionfile.Files:
		return f.Recording(by)
	}
	return journaledFiles{Files: files, e: e, by: by}
}

// FilesOf opens the files of a session as its model sees them, for a caller that is not a call of
// the session. Changes are recorded in the journal under that actor. Unavailable: the files cannot
// be opened.
func (e *Effects) FilesOf(id perdure.SessionID, actor string) (tool.Files, error) {
	files, _ := e.files(tool.Call{Session: id})
	if files == nil {
		return nil, fmt.Errorf("open files of %s: %w: the folder cannot be opened", id, perdure.Unavailable)
	}
	if known := e.secrets.Known(id); known != nil {
		files = masked(files, known.Mask)
	}
	switch f := files.(type) {
	case *sessionfile.Files:
		return f.As(actor), nil
	case journaledFiles:
		f.as = actor
		return f, nil
	}
	return files, nil
}

// masked returns files whose journal records have secrets masked.
func masked(files tool.Files, mask func(string) string) tool.Files {
	switch f := files.(type) {
	case *sessionfile.Files:
		return f.Masked(mask)
	case journaledFiles:
		f.mask = mask
		return f
	}
	return files
}

// journaledFiles is files that are not stored in the store. Its changes are recorded right after
// they are made.
type journaledFiles struct {
	tool.Files
	e    *Effects
	by   tool.Call
	as   string              // actor of the changes, if no call makes them
	mask func(string) string // masks secrets in what is recorded; nil: there are none
}

// Write replaces a file, or creates it.
func (t journaledFiles) Write(ctx context.Context, w tool.FileWrite) (created bool, err error) {
	if created, err = t.Files.Write(ctx, w); err == nil {
		t.record(perdure.FileWritten{Path: w.Path, SizeBytes: int64(len(w.Content))})
	}
	return created, err
}

// Remove deletes a file or directory.
func (t journaledFiles) Remove(ctx context.Context, path string, recursive bool) (removed bool, err error) {
	if removed, err = t.Files.Remove(ctx, path, recursive); err == nil && removed {
		t.record(perdure.FileWritten{Path: path, Removed: true})
	}
	return removed, err
}

// MakeDirectory makes a directory. A directory that exists already is not a change.
func (t journaledFiles) MakeDirectory(ctx context.Context, path string) (tool.FileStat, error) {
	_, missing := t.Files.Stat(ctx, path)
	made, err := t.Files.MakeDirectory(ctx, path)
	if err == nil && errors.Is(missing, perdure.NotFound) {
		t.record(perdure.FileWritten{Path: path, Directory: true})
	}
	return made, err
}

// Move moves a file or directory.
func (t journaledFiles) Move(ctx context.Context, from, to string) (tool.FileStat, error) {
	mover, ok := t.Files.(tool.Mover)
	if !ok {
		return tool.FileStat{}, cannotMove()
	}
	moved, err := mover.Move(ctx, from, to)
	if err == nil {
		t.record(perdure.FileWritten{Path: from, Removed: true})
		t.record(perdure.FileWritten{Path: moved.Path, SizeBytes: moved.SizeBytes, Directory: moved.IsDirectory})
	}
	return moved, err
}

// RemoveIf deletes a file if it has the given content.
func (t journaledFiles) RemoveIf(ctx context.Context, path string, content []byte) (bool, error) {
	mover, ok := t.Files.(tool.Mover)
	if !ok {
		return false, cannotMove()
	}
	removed, err := mover.RemoveIf(ctx, path, content)
	if err == nil && removed {
		t.record(perdure.FileWritten{Path: path, Removed: true})
	}
	return removed, err
}

func cannotMove() error {
	return fmt.Errorf("%w: the host's file store cannot move files or compare their content", perdure.Unavailable)
}

// record records a change in the journal. The change is done, so an error is logged and not
// returned.
func (t journaledFiles) record(fact perdure.FileWritten) {
	if clean, err := tool.CleanPath(fact.Path); err == nil {
		fact.Path = clean // one name for each file, as the store writes it
	}
	if t.mask != nil {
		fact.Path = t.mask(fact.Path)
	}
	ctx, cancel := core.SettleContext(context.Background())
	defer cancel()
	err := t.e.core.Work.InTx(ctx, func(tx store.Tx) error {
		return tx.Journal().Append(t.by.Session, []perdure.Event{sessionfile.Event(t.by, t.as, tx.Now(), fact)})
	})
	if err != nil && !errors.Is(err, perdure.NotFound) { // NotFound: the session and its journal were removed
		t.e.core.Log.Warn("file change not recorded in the journal", "session", t.by.Session, "path", fact.Path,
			"error", err)
	}
}

// callOfTask names a task as the source of a file change.
func callOfTask(t perdure.Task) tool.Call {
	return tool.Call{Session: t.Session, Turn: t.Turn, Task: t.ID, Attempt: t.Attempt}
}

// writeFile writes a file of the runtime without a fence. It does not end with the context of the
// work that the file describes.
func (e *Effects) writeFile(by tool.Call, w tool.FileWrite) error {
	return e.writeFenced(by, w, nil)
}

// writeFenced is writeFile if fence allows it. The fence is checked in the same commit if files are
// stored in the store, otherwise right before the write.
func (e *Effects) writeFenced(by tool.Call, w tool.FileWrite, fence func(store.Reader) error) error {
	ctx, cancel := core.SettleContext(context.Background())
	defer cancel()
	return e.core.Guarded("write "+w.Path, func() error {
		_, files := e.files(by)
		switch {
		case fence == nil:
		case e.core.OwnFiles:
			files = sessionfile.New(core.Fenced{Store: e.core.Work, Fence: fence}, by.Session, true).Recording(by)
		default:
			if err := e.core.Store.View(ctx, fence); err != nil {
				return err
			}
		}
		if files == nil {
			return fmt.Errorf("write %s: %w: no file store", w.Path, perdure.Unavailable)
		}
		_, err := files.Write(ctx, w)
		return err
	})
}

// outputLog builds output.log from the task log: every chunk with its stream, cut at the limit.
func (e *Effects) outputLog(ctx context.Context, t perdure.Task, v verdict,
	page logPage) (log string, truncated bool, end int64, err error) {
	if v.raw != nil {
		log, truncated = limitLog(*v.raw)
		return log + v.tail, truncated, int64(len(*v.raw)), nil
	}
	var b strings.Builder
	chars := 0
	for chars <= logLimitChars && page.err == nil && len(page.chunks) > 0 {
		offset := int64(0)
		for _, c := range page.chunks {
			piece := "[" + c.Stream + "] " + strings.ToValidUTF8(string(c.Bytes), "\uFFFD")
			b.WriteString(piece)
			chars += utf8.RuneCountInString(piece)
			offset = c.Offset + int64(len(c.Bytes))
		}
		page.err = e.core.Store.View(ctx, func(r store.Reader) (err error) {
			page.chunks, page.end, err = r.Tasks().ReadLog(t.ID, offset, logPageBytes)
			return err
		})
	}
	log, truncated = limitLog(b.String())
	return log + v.tail, truncated, page.end, page.err
}

// logPage is a page of a task's log.
type logPage struct {
	chunks []store.LogChunk
	end    int64 // length of the full log
	err    error
}

// logPageBytes is how much of a log is read at once.
const logPageBytes = 256 << 10

// limitLog cuts a log at the limit and appends a line that says so.
func limitLog(log string) (string, bool) {
	if utf8.RuneCountInString(log) <= logLimitChars {
		return log, false
	}
	n := 0
	for i := range log {
		if n == logLimitChars {
			log = log[:i]
			break
		}
		n++
	}
	return fmt.Sprintf("%s\n[system] background output truncated at %d characters\n", log, logLimitChars), true
}

// content is the content of result.json.
type content struct {
	text  []byte
	bytes int  // size of the full result
	cut   bool // text is only the first part
}

// shortContent returns the content of a result that is within the limit.
func shortContent(text []byte) content { return content{text: text, bytes: len(text)} }

// resultContent returns a result indented for people. A result that would exceed the limit only
// because of the indentation is stored as it is. A result that is itself too large is cut; the task
// still succeeds.
func resultContent(result json.RawMessage) content {
	if len(result) > resultLimitBytes {
		head := strings.ToValidUTF8(string(result[:4096]), "")
		return content{text: prettyJSON(map[string]any{"truncated": true, "bytes": len(result), "preview": head}),
			bytes: len(result), cut: true}
	}
	if indentedBytes(result) > resultLimitBytes {
		return shortContent(result)
	}
	return shortContent(indentJSON(result))
}

// indentedBytes returns an upper bound of the size of an indented result, without indenting it.
func indentedBytes(result []byte) int {
	total, depth, quoted := len(result), 0, false
	for i := 0; i < len(result); i++ {
		switch c := result[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
			total += 1 + 2*depth
		case c == '}' || c == ']':
			depth--
			total += 1 + 2*depth
		case c == ',':
			total += 1 + 2*depth
		case c == ':':
			total++
		}
	}
	return total + 1
}

// prettyJSON writes a value for people.
func prettyJSON(v any) []byte {
	body, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return []byte("null\n")
	}
	return append(body, '\n')
}

// indentJSON indents a result for people. Text that is not valid JSON is returned unchanged.
func indentJSON(body json.RawMessage) []byte {
	var out bytes.Buffer
	if json.Indent(&out, body, "", "  ") != nil {
		return body
	}
	out.WriteByte('\n')
	return out.Bytes()
}
