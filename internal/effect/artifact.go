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
	"github.com/perdure/perdure/internal/sessionfile"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

const (
	logLimitChars    = 262_144 // of output.log, prefixes counted (BG12)
	resultLimitBytes = 8 << 20 // of result.json
	rawLimitBytes    = 8 << 20 // of raw.txt
)

// artifactPaths is where a run's files stand; a path is empty when its file could not be written.
type artifactPaths struct{ log, result, raw string }

// The artifacts that a task's record names.
const (
	logFile    = "output.log"
	resultFile = "result.json"
	rawFile    = "raw.txt"
)

// note notes a file that was written.
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

// meta is what meta.json says of a run (BG14).
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

// artifacts are the files of an attempt that ended. They are the runtime's own, so that no secret is in their names.
func (e *Effects) artifacts(ctx context.Context, t perdure.Task, v verdict, begins logPage) []tool.FileWrite {
	log, truncated, end, err := e.outputLog(ctx, t, v, begins)
	if err != nil {
		e.cfg.Log.Error("a task's log cannot be read", "task", t.ID, "error", err)
	}
	m := meta{
		Status: v.update.State, Attempt: t.Attempt, CreatedAt: t.CreatedAt, StartedAt: t.StartedAt, FinishedAt: time.Now().UTC(),
		ExitCode: v.code, LogBytes: end, LogTruncated: truncated, ResultBytes: v.body.bytes, ResultTruncated: v.body.cut,
	}
	if v.update.Error != nil {
		m.ErrorKind = v.update.Error.Kind
	}
	dir := t.ArtifactDir() + "/"
	files := []tool.FileWrite{
		{Path: dir + logFile, Content: []byte(log)}, {Path: dir + resultFile, Content: v.body.text}, {Path: dir + "meta.json", Content: prettyJSON(m)},
	}
	if v.raw != nil && truncated {
		files = append(files, tool.FileWrite{Path: dir + rawFile, Content: []byte((*v.raw)[:min(len(*v.raw), rawLimitBytes)])})
	}
	return files
}

// inRecord reports a call of a host whose end its record holds whole: it wrote no output, and its result is short. It is given no
// artifacts, which would say the same again (decision 029).
func inRecord(t perdure.Task, v verdict) bool {
	return t.Taken() && v.silent && v.raw == nil && v.tail == "" && v.update.State == perdure.TaskSucceeded &&
		v.update.Result != "" && v.update.Result == perdure.ShortResult(v.result.Result, "")
}

// publish writes artifacts, each under the fence of its attempt (RC18). One that cannot be written does not stop the end of
// the run; its name is returned (BG15). Lost: another attempt has the task, and its files are another's.
func (e *Effects) publish(t perdure.Task, files []tool.FileWrite) (paths artifactPaths, missing string, lost error) {
	fence := func(r store.Reader) error {
		_, err := owned(r, t)
		return err
	}
	for _, w := range files {
		err := e.writeFenced(byTask(t), w, fence)
		switch {
		case errors.Is(err, perdure.Lost):
			return paths, missing, err
		case err != nil:
			e.cfg.Log.Error("an artifact was not written", "task", t.ID, "path", w.Path, "error", err)
			missing = strings.TrimPrefix(missing+", "+path.Base(w.Path), ", ")
		default:
			paths.note(w.Path)
		}
	}
	return paths, missing, nil
}

// publishIn is publish in the commit of the attempt's end, where files are the store's: all of them are written, or none, and
// then the commit fails.
func (e *Effects) publishIn(tx store.Tx, t perdure.Task, files []tool.FileWrite) (paths artifactPaths, err error) {
	if len(files) == 0 {
		return paths, nil
	}
	if err := sessionfile.New(e.work, t.Session, true).Telling(byTask(t)).WriteIn(tx, files...); err != nil {
		return paths, err
	}
	for _, w := range files {
		paths.note(w.Path)
	}
	return paths, nil
}

// files opens the files of a call's session, as the model sees them and as the runtime writes them. Every change leaves
// file.written (FI9): in its own commit where files are the store's, and else right after it. A seed leaves none.
func (e *Effects) files(by tool.Call) (model, runtime tool.Files) {
	model, runtime = e.cfg.Files(by.Session)
	return e.telling(model, by), e.telling(runtime, by)
}

// telling is files whose changes the journal tells.
func (e *Effects) telling(files tool.Files, by tool.Call) tool.Files {
	switch f := files.(type) {
	case nil, tool.DisabledFiles:
		return files
	case *sessionfile.Files:
		return f.Telling(by)
	}
	return told{Files: files, e: e, by: by}
}

// FilesOf opens the files of a session as its model sees them, for somebody who is no call of it. The journal tells of every
// change, by that actor. Unavailable: they cannot be opened.
func (e *Effects) FilesOf(id perdure.SessionID, actor string) (tool.Files, error) {
	files, _ := e.files(tool.Call{Session: id})
	if files == nil {
		return nil, fmt.Errorf("the files of %s: %w: its folder cannot be opened", id, perdure.Unavailable)
	}
	if known := e.known(id); known != nil {
		files = masked(files, known.Mask)
	}
	switch f := files.(type) {
	case *sessionfile.Files:
		return f.As(actor), nil
	case told:
		f.as = actor
		return f, nil
	}
	return files, nil
}

// masked is files that the journal tells of, without what is secret (SE4).
func masked(files tool.Files, mask func(string) string) tool.Files {
	switch f := files.(type) {
	case *sessionfile.Files:
		return f.Masked(mask)
	case told:
		f.mask = mask
		return f
	}
	return files
}

// told is files that stand elsewhere than in the store.
type told struct {
	tool.Files
	e    *Effects
	by   tool.Call
	as   string              // who made the changes, when it is no call
	mask func(string) string // of what is told; nil: nothing is secret
}

// Write replaces a file, or creates it.
func (t told) Write(ctx context.Context, w tool.FileWrite) (created bool, err error) {
	if created, err = t.Files.Write(ctx, w); err == nil {
		t.tell(perdure.FileWritten{Path: w.Path, SizeBytes: int64(len(w.Content))})
	}
	return created, err
}

// Remove deletes a file or directory.
func (t told) Remove(ctx context.Context, path string, recursive bool) (removed bool, err error) {
	if removed, err = t.Files.Remove(ctx, path, recursive); err == nil && removed {
		t.tell(perdure.FileWritten{Path: path, Removed: true})
	}
	return removed, err
}

// MakeDirectory makes a directory. One that is there already is no change.
func (t told) MakeDirectory(ctx context.Context, path string) (tool.FileStat, error) {
	_, missing := t.Files.Stat(ctx, path)
	made, err := t.Files.MakeDirectory(ctx, path)
	if err == nil && errors.Is(missing, perdure.NotFound) {
		t.tell(perdure.FileWritten{Path: path, Directory: true})
	}
	return made, err
}

// Move gives a file or directory another path.
func (t told) Move(ctx context.Context, from, to string) (tool.FileStat, error) {
	mover, ok := t.Files.(tool.Mover)
	if !ok {
		return tool.FileStat{}, cannotMove()
	}
	moved, err := mover.Move(ctx, from, to)
	if err == nil {
		t.tell(perdure.FileWritten{Path: from, Removed: true})
		t.tell(perdure.FileWritten{Path: moved.Path, SizeBytes: moved.SizeBytes, Directory: moved.IsDirectory})
	}
	return moved, err
}

// RemoveIf deletes a file that has a content.
func (t told) RemoveIf(ctx context.Context, path string, content []byte) (bool, error) {
	mover, ok := t.Files.(tool.Mover)
	if !ok {
		return false, cannotMove()
	}
	removed, err := mover.RemoveIf(ctx, path, content)
	if err == nil && removed {
		t.tell(perdure.FileWritten{Path: path, Removed: true})
	}
	return removed, err
}

func cannotMove() error {
	return fmt.Errorf("%w: the host keeps these files where nothing is moved, nor removed by what it holds", perdure.Unavailable)
}

// tell appends what changed. The change stands whether or not it can be told, so that it is no error of whoever made it.
func (t told) tell(fact perdure.FileWritten) {
	if clean, err := tool.CleanPath(fact.Path); err == nil {
		fact.Path = clean // one name per file, as the store tells it
	}
	if t.mask != nil {
		fact.Path = t.mask(fact.Path)
	}
	ctx, cancel := settleContext(context.Background())
	defer cancel()
	err := t.e.work.InTx(ctx, func(tx store.Tx) error {
		return tx.Append(t.by.Session, []perdure.Event{sessionfile.Told(t.by, t.as, tx.Now(), fact)})
	})
	if err != nil && !errors.Is(err, perdure.NotFound) { // else the session is gone, and its journal with it
		t.e.cfg.Log.Warn("a change of a file is not in the journal", "session", t.by.Session, "path", fact.Path, "error", err)
	}
}

// byTask is whose change a file of a task is.
func byTask(t perdure.Task) tool.Call {
	return tool.Call{Session: t.Session, Turn: t.Turn, Task: t.ID, Attempt: t.Attempt}
}

// writeFile writes a file of the runtime's own that is nobody's work. It outlives the context of the work that it tells about.
func (e *Effects) writeFile(by tool.Call, w tool.FileWrite) error {
	return e.writeFenced(by, w, nil)
}

// writeFenced is writeFile, if the fence lets it: in the same commit where files are the store's, and else right before.
func (e *Effects) writeFenced(by tool.Call, w tool.FileWrite, fence func(store.Reader) error) error {
	ctx, cancel := settleContext(context.Background())
	defer cancel()
	return e.guarded("write "+w.Path, func() error {
		_, files := e.files(by)
		switch {
		case fence == nil:
		case e.ownFiles:
			files = sessionfile.New(fenced{Store: e.work, fence: fence}, by.Session, true).Telling(by)
		default:
			if err := e.cfg.Store.View(ctx, fence); err != nil {
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

// outputLog makes output.log out of the task log: every piece with its stream, cut at the cap (BG12).
func (e *Effects) outputLog(ctx context.Context, t perdure.Task, v verdict, page logPage) (log string, truncated bool, end int64, err error) {
	if v.raw != nil {
		log, truncated = capLog(*v.raw)
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
		page.err = e.cfg.Store.View(ctx, func(r store.Reader) (err error) {
			page.chunks, page.end, err = r.ReadLog(t.ID, offset, logPageBytes)
			return err
		})
	}
	log, truncated = capLog(b.String())
	return log + v.tail, truncated, page.end, page.err
}

// logPage is a piece of a task's log, as it was read.
type logPage struct {
	chunks []store.LogChunk
	end    int64 // of the whole log
	err    error
}

// logPageBytes is how much of a log is read at a time.
const logPageBytes = 256 << 10

// capLog cuts a log at its cap, and says so in the log.
func capLog(log string) (string, bool) {
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

// content is what result.json holds.
type content struct {
	text  []byte
	bytes int  // of the whole, of which text is a part or another form
	cut   bool // text has only the beginning
}

// short is the content of a file that is within its cap.
func short(text []byte) content { return content{text: text, bytes: len(text)} }

// resultContent is a result for people, indented, or as it came where that would be beyond the cap: the indents of deeply
// nested JSON are larger than what they indent. A result that is too large itself is cut, and stays a success (BG14).
func resultContent(result json.RawMessage) content {
	if len(result) > resultLimitBytes {
		head := strings.ToValidUTF8(string(result[:4096]), "")
		return content{text: prettyJSON(map[string]any{"truncated": true, "bytes": len(result), "preview": head}), bytes: len(result), cut: true}
	}
	if indentedBytes(result) > resultLimitBytes {
		return short(result)
	}
	return short(indentJSON(result))
}

// indentedBytes is at least as many bytes as a result has indented. It does not indent it.
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

// indentJSON writes a result for people, as it is.
func indentJSON(body json.RawMessage) []byte {
	var out bytes.Buffer
	if json.Indent(&out, body, "", "  ") != nil {
		return body
	}
	out.WriteByte('\n')
	return out.Bytes()
}
