package host

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"strconv"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// The limits of an archive. Longer lines and files are neither written nor read.
const (
	maxArchiveLine  = 64 << 20 // bytes, without the line end
	maxArchiveBytes = engine.MaxArchiveBytes
)

const (
	archiveFormat = "perdure-session"
	// archiveVersion is written if a program that knows only firstVersion would lose data,
	// firstVersion otherwise.
	archiveVersion = 2
	firstVersion   = 1
)

// archiveHead is the first line. It contains no time, so that the same state gives the same bytes.
type archiveHead struct {
	Format  string            `json:"format"`
	Version int               `json:"version"`
	Session perdure.SessionID `json:"session_id"` // the root
	AtRest  bool              `json:"at_rest"`    // all of the sessions were idle
	LeftOut []omission        `json:"left_out,omitempty"`
}

// archiveLine is every other line.
type archiveLine struct {
	Kind string          `json:"kind"`
	Row  json.RawMessage `json:"row"`
}

// archiveEnd is the row of the last line. It reveals a file that was truncated or modified.
type archiveEnd struct {
	Counts map[string]int `json:"counts"` // rows by kind
	SHA256 string         `json:"sha256"` // of all lines before it, including line ends
}

// Export writes a session and its subagents' sessions as JSON lines.
func (e hostSessions) Export(ctx context.Context, id perdure.SessionID, w io.Writer) error {
	parcels, left, err := e.collectTree(ctx, id)
	if err == nil && parcels[0].Session.Parent != "" {
		err = fmt.Errorf("%w session: it is a subagent of %s; export its root %s instead",
			perdure.Invalid, parcels[0].Session.Parent, parcels[0].Session.Root)
	}
	if err == nil {
		err = writeArchive(w, parcels, left)
	}
	if err != nil {
		return fmt.Errorf("export %s: %w", id, err)
	}
	return nil
}

// dumpTree dumps a session and, recursively, its subagents' sessions, oldest first.
func dumpTree(r store.Reader, id perdure.SessionID) ([]store.SessionDump, error) {
	own, err := r.Sessions().Dump(id)
	if err != nil {
		return nil, err
	}
	children, err := r.Sessions().List(store.SessionFilter{Parent: id})
	if err != nil {
		return nil, err
	}
	all := []store.SessionDump{own}
	for _, child := range slices.Backward(children) {
		below, err := dumpTree(r, child.ID)
		if err != nil {
			return nil, err
		}
		all = append(all, below...)
	}
	return all, nil
}

// isDumpIdle reports whether a dumped session is idle. Invalid: its journal cannot be folded.
func isDumpIdle(d store.SessionDump) (bool, error) {
	session := perdure.NewSession(d.Session.ID)
	for _, body := range d.Events {
		event, err := perdure.DecodeEvent(body)
		if err == nil {
			err = session.Apply(event)
		}
		if err != nil {
			return false, fmt.Errorf("%w journal of %s: %w", perdure.Invalid, d.Session.ID, err)
		}
	}
	works := slices.ContainsFunc(d.Calls, func(c perdure.Call) bool { return c.State == perdure.CallRunning }) ||
		slices.ContainsFunc(d.Tasks, func(t perdure.Task) bool { return t.State.Live() }) ||
		// An enabled schedule counts as work, because both copies would fire it.
		slices.ContainsFunc(d.Schedules, func(s perdure.Schedule) bool { return s.Enabled }) ||
		slices.ContainsFunc(d.Spawns, func(s store.Spawn) bool { return s.State.Live() })
	return !works && d.Session.Worker == "" && session.AtRest(), nil
}

// writeArchive writes the sessions, root first.
func writeArchive(w io.Writer, parcels []archivedSession, left []omission) error {
	head := archiveHead{
		Format: archiveFormat, Version: firstVersion, Session: parcels[0].Session.ID, AtRest: true, LeftOut: left,
	}
	for _, p := range parcels {
		rests, err := isDumpIdle(p.SessionDump)
		if err != nil {
			return err
		}
		head.AtRest = head.AtRest && rests
		if len(p.databases)+len(p.Images)+len(left) > 0 {
			head.Version = archiveVersion
		}
	}
	out := &archiveWriter{out: bufio.NewWriter(w), sum: sha256.New(), end: archiveEnd{Counts: map[string]int{}}}
	err := out.line(head)
	for _, p := range parcels {
		if err == nil {
			err = out.session(p)
		}
	}
	out.end.SHA256 = hex.EncodeToString(out.sum.Sum(nil))
	if err == nil {
		err = out.line(row{"end", out.end})
	}
	if err == nil {
		err = out.out.Flush()
	}
	return err
}

// row is an archiveLine to write.
type row struct {
	Kind string `json:"kind"`
	Row  any    `json:"row"`
}

// archiveWriter writes lines and counts and hashes them.
type archiveWriter struct {
	out *bufio.Writer
	sum hash.Hash
	end archiveEnd
	n   int64 // bytes written so far
}

func (a *archiveWriter) line(v any) error {
	text, err := plainJSON(v)
	if err != nil {
		return err
	}
	a.n += int64(len(text))
	if len(text) > maxArchiveLine || a.n > maxArchiveBytes {
		return fmt.Errorf("%w: a row of %d bytes, after %d; a line has at most %d, and a file %d",
			perdure.Limit, len(text), a.n-int64(len(text)), maxArchiveLine, maxArchiveBytes)
	}
	a.sum.Write(text) // never fails
	_, err = a.out.Write(text)
	return err
}

func (a *archiveWriter) put(kind string, v any) error {
	a.end.Counts[kind]++
	return a.line(row{kind, v})
}

// plainJSON encodes a value as one line, without HTML escapes.
func plainJSON(v any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return out.Bytes(), err
}

func (e hostSessions) Import(ctx context.Context, r io.Reader, how engine.Import) (engine.Session, error) {
	head, parcels, err := readArchive(r)
	if err != nil {
		return engine.Session{}, fmt.Errorf("import: %w", err)
	}
	if !head.AtRest && !how.TakeOver {
		return engine.Session{}, fmt.Errorf("import %s: %w: work was running when it was exported; "+
			"both copies would continue it, and effects could happen twice; "+
			"export it when it is idle, or take it over if the other copy no longer exists",
			head.Session, perdure.Conflict)
	}
	var ids []perdure.SessionID
	for _, d := range parcels {
		ids = append(ids, d.Session.ID)
		if err := checkJournal(d.SessionDump, how.Check); err != nil {
			return engine.Session{}, fmt.Errorf("import %s: %w", head.Session, err)
		}
	}
	if _, err := e.Retention().cleanLeftovers(ctx, ids...); err != nil {
		e.cfg.Log.Warn("leftovers of deleted sessions not checked, will retry", "error", tool.Chain(err))
	}
	e.createMu.Lock()
	defer e.createMu.Unlock()
	undo, err := e.restoreOutsideStore(ctx, parcels)
	if err != nil {
		return engine.Session{}, fmt.Errorf("import %s: %w", head.Session, err)
	}
	err = e.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		of := rowOwner(ctx) // the importing owner, whatever the owner in the file
		for _, p := range parcels {
			d := p.SessionDump
			d.Session.Org, d.Session.User, d.Session.Home = of.Org, of.User, e.homeOfImported(p)
			if err := tx.Sessions().Restore(d); err != nil {
				return err
			}
		}
		// Checked after Restore: from there on nobody else can delete these ids.
		if err := e.checkNoLeftovers(tx.Reader(), ids...); err != nil {
			return err
		}
		return tx.Audit().Add(store.AuditEntry{
			Org: of.Org, Actor: store.ActorOf(ctx), Action: "session.imported", Subject: string(head.Session),
			Session: head.Session,
			Detail: map[string]string{
				"sessions": strconv.Itoa(len(parcels)), "at_rest": strconv.FormatBool(head.AtRest),
			},
		})
	})
	if err != nil {
		undo()
		return engine.Session{}, fmt.Errorf("import %s: %w", head.Session, err)
	}
	for _, d := range parcels {
		e.effects.Forget(d.Session.ID) // the cached fold of a deleted session with this id
	}
	if !head.AtRest {
		for _, d := range parcels {
			e.scheduler.Wake(d.Session.ID)
		}
		e.scheduler.Replan()
		e.scheduler.StartQueued() // starts queued tasks; the next heartbeat takes over the running ones
	}
	return e.Sessions().Get(ctx, head.Session)
}

// checkJournal decodes the journal of a session and passes it to check.
func checkJournal(d store.SessionDump, check func([]perdure.Event) error) error {
	if check == nil {
		return nil
	}
	journal := make([]perdure.Event, 0, len(d.Events))
	for _, text := range d.Events {
		ev, err := perdure.DecodeEvent(text)
		if err != nil {
			return err
		}
		journal = append(journal, ev)
	}
	return check(journal)
}

// readArchive reads what writeArchive wrote. The file is not trusted: Invalid names the wrong line.
func readArchive(r io.Reader) (archiveHead, []archivedSession, error) {
	in := &archiveReader{in: bufio.NewReaderSize(r, 64<<10), sum: sha256.New(), counts: map[string]int{}}
	head, err := in.head()
	for more := err == nil; more; {
		more, err = in.next()
	}
	if err == nil {
		err = in.check(head)
	}
	if err != nil {
		return head, nil, err
	}
	return head, in.parcels, nil
}

// archiveReader reads lines and counts and hashes them.
type archiveReader struct {
	in      *bufio.Reader
	sum     hash.Hash
	counts  map[string]int
	parcels []archivedSession
	n       int   // the number of the last line read
	bytes   int64 // read so far
}

// lineError wraps an error with the last line read.
func (a *archiveReader) lineError(err error) error {
	return fmt.Errorf("%w file, line %d: %w", perdure.Invalid, a.n, err)
}

// line reads one line including its end.
func (a *archiveReader) line() ([]byte, error) {
	a.n++
	var line []byte
	for {
		part, err := a.in.ReadSlice('\n')
		line = append(line, part...)
		a.bytes += int64(len(part))
		switch {
		case len(line) > maxArchiveLine+1 || a.bytes > maxArchiveBytes:
			return nil, fmt.Errorf("%w: line %d has more than %d bytes, or the file more than %d",
				perdure.Limit, a.n, maxArchiveLine, maxArchiveBytes)
		case err == nil:
			return line, nil
		case errors.Is(err, io.EOF):
			return nil, a.lineError(errors.New("the file is truncated here; export it again"))
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, fmt.Errorf("read line %d: %w", a.n, err)
		}
	}
}

func (a *archiveReader) head() (head archiveHead, err error) {
	line, err := a.line()
	if err != nil {
		return head, err
	}
	a.sum.Write(line)
	if err := perdure.DecodeKnownJSON(line, &head); err != nil || head.Format != archiveFormat {
		return head, a.lineError(fmt.Errorf("it is not an exported session, which starts with {\"format\":%q, …}",
			archiveFormat))
	}
	if head.Version < firstVersion || head.Version > archiveVersion {
		return head, a.lineError(fmt.Errorf("it has format version %d, and this program reads versions up to %d; "+
			"import it with the program version that wrote it, or a later one", head.Version, archiveVersion))
	}
	if err := perdure.DecodeJSON(line, &head); err != nil {
		return head, a.lineError(err)
	}
	return head, nil
}

// next reads a row. more is false after the last one.
func (a *archiveReader) next() (more bool, err error) {
	line, err := a.line()
	if err != nil {
		return false, err
	}
	var l archiveLine
	if err := perdure.DecodeJSON(line, &l); err != nil {
		return false, a.lineError(err)
	}
	if l.Kind == "end" {
		return false, a.checkEnd(l.Row)
	}
	a.sum.Write(line)
	a.counts[l.Kind]++
	if l.Kind == "session" {
		p := archivedSession{}
		err = readSession(l.Row, &p.SessionDump)
		a.parcels = append(a.parcels, p)
	} else if len(a.parcels) == 0 {
		err = errors.New("a row precedes its session")
	} else {
		err = readRow(l.Kind, l.Row, &a.parcels[len(a.parcels)-1])
	}
	if err != nil {
		return false, a.lineError(err)
	}
	return true, nil
}

// checkEnd checks the last line against the lines before it. Nothing may follow it.
func (a *archiveReader) checkEnd(text json.RawMessage) error {
	var end archiveEnd
	if err := perdure.DecodeJSON(text, &end); err != nil {
		return a.lineError(err)
	}
	for kind, n := range end.Counts {
		if a.counts[kind] != n {
			return a.lineError(fmt.Errorf("the file has %d rows of kind %s, but it should have %d; export it again",
				a.counts[kind], clipped(kind), n))
		}
	}
	if end.SHA256 != hex.EncodeToString(a.sum.Sum(nil)) || len(end.Counts) != len(a.counts) {
		return a.lineError(errors.New("the lines before it were modified after the export; export it again"))
	}
	if _, err := a.in.ReadByte(); !errors.Is(err, io.EOF) {
		a.n++
		return a.lineError(errors.New("nothing may follow the last line"))
	}
	return nil
}

// check verifies that the sessions form one complete tree, and that at_rest in the first line is
// right.
func (a *archiveReader) check(head archiveHead) error {
	rest, known := true, map[perdure.SessionID]bool{}
	for i, d := range a.parcels {
		s := d.Session
		if _, err := perdure.ParseID[perdure.SessionID](string(s.ID)); err != nil {
			return err
		}
		isRoot := s.ID == head.Session && s.Parent == "" && s.Root == s.ID
		isChild := known[s.Parent] && s.Root == head.Session
		if known[s.ID] || i == 0 && !isRoot || i > 0 && !isChild {
			return fmt.Errorf("%w file: session %s does not belong to %s", perdure.Invalid, s.ID, head.Session)
		}
		known[s.ID] = true
		if err := d.Check(); err != nil {
			return err
		}
		rests, err := isDumpIdle(d.SessionDump)
		if err != nil {
			return err
		}
		rest = rest && rests
	}
	if len(a.parcels) == 0 || rest != head.AtRest {
		return fmt.Errorf("%w file: its first line says at_rest %t, which is wrong for its %d sessions",
			perdure.Invalid, head.AtRest, len(a.parcels))
	}
	return nil
}

// clipped shortens and quotes a word of the file for an error.
func clipped(word string) string { return fmt.Sprintf("%.40q", word) }
