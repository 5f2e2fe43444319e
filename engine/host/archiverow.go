package host

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/sessionsql"
	"github.com/perdure/perdure/store"
)

// octets are bytes that may be invalid UTF-8. JSON has them as text if they are valid, otherwise in
// base64.
type octets string

// MarshalJSON writes a string, or {"base64": …}.
func (o octets) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(o)) {
		return plainJSON(string(o))
	}
	return plainJSON(map[string]string{"base64": base64.StdEncoding.EncodeToString([]byte(o))})
}

func (o *octets) UnmarshalJSON(text []byte) error {
	if len(text) > 0 && text[0] == '{' {
		var raw struct {
			Base64 []byte `json:"base64"`
		}
		err := perdure.DecodeJSON(text, &raw)
		*o = octets(raw.Base64)
		return err
	}
	var plain string
	err := perdure.DecodeJSON(text, &plain)
	*o = octets(plain)
	return err
}

// bytesOrNil returns the bytes; like a store it returns nil if there are none.
func (o octets) bytesOrNil() []byte {
	if o == "" {
		return nil
	}
	return []byte(o)
}

// The rows of an archive. A row belongs to the last session row before it.
type (
	sessionRow struct {
		ID        perdure.SessionID     `json:"id"`
		Parent    perdure.SessionID     `json:"parent_session_id,omitempty"`
		Root      perdure.SessionID     `json:"root_session_id"`
		Forked    perdure.SessionID     `json:"forked_from_session_id,omitempty"`
		Title     octets                `json:"title,omitempty"`
		Labels    perdure.Labels        `json:"labels,omitempty"`
		Status    perdure.SessionStatus `json:"status"`
		LastSeq   int64                 `json:"last_seq"`
		Epoch     int64                 `json:"epoch"`
		Worker    perdure.WorkerID      `json:"worker_id,omitempty"`
		TakeUps   int                   `json:"take_ups,omitempty"`
		TakenSeq  int64                 `json:"taken_seq"`
		Secret    string                `json:"secret"` // in hex
		CreatedAt time.Time             `json:"created_at"`
		UpdatedAt time.Time             `json:"updated_at"`
	}
	callRow struct {
		ID          octets              `json:"id"`
		Turn        perdure.TurnID      `json:"turn_id,omitempty"`
		Task        perdure.TaskID      `json:"task_id,omitempty"`
		Attempt     int                 `json:"attempt,omitempty"`
		Tool        octets              `json:"tool"`
		Args        octets              `json:"args"`
		Fingerprint string              `json:"fingerprint"`
		Class       perdure.EffectClass `json:"effect_class"`
		State       perdure.CallState   `json:"state"`
		Token       perdure.Token       `json:"token"`
		Worker      perdure.WorkerID    `json:"worker_id"`
		Epoch       int64               `json:"epoch"`
		Executions  int                 `json:"executions"`
		Result      *perdure.ToolResult `json:"result,omitempty"`
		ResolvedBy  octets              `json:"resolved_by,omitempty"`
		ClaimedAt   time.Time           `json:"claimed_at"`
		SettledAt   time.Time           `json:"settled_at,omitzero"`
	}
	messageRow struct {
		ID        perdure.TaskMessageID `json:"id"`
		Task      perdure.TaskID        `json:"task_id"`
		Direction string                `json:"direction"`
		Text      octets                `json:"text,omitempty"`
		Body      octets                `json:"data,omitempty"`
		InReplyTo perdure.RequestID     `json:"in_reply_to,omitempty"`
		By        octets                `json:"by,omitempty"`
		CreatedAt time.Time             `json:"created_at"`
	}
	logRow struct {
		Task    perdure.TaskID `json:"task_id"`
		Offset  int64          `json:"offset"`
		Stream  octets         `json:"stream"`
		Attempt int            `json:"attempt"`
		At      time.Time      `json:"at"`
		Bytes   octets         `json:"bytes"`
	}
	deliveryRow struct {
		Task    perdure.TaskID    `json:"task_id"`
		Attempt int               `json:"attempt"`
		State   perdure.TaskState `json:"state"`
		Settled time.Time         `json:"settled_at"`
		Claimed bool              `json:"claimed"`
	}
	approvalRow struct {
		Call     octets           `json:"call"` // the exact bytes; a JSON string would change invalid UTF-8
		Approval perdure.Approval `json:"approval"`
	}
	spawnRow struct {
		Call      octets            `json:"call"`
		Root      perdure.SessionID `json:"root_session_id"`
		Depth     int               `json:"depth"`
		Task      perdure.TaskID    `json:"task_id"`
		Child     perdure.SessionID `json:"child_session_id,omitempty"`
		Name      octets            `json:"name"`
		Prompt    octets            `json:"prompt"`
		Schema    octets            `json:"schema,omitempty"`
		Token     perdure.Token     `json:"token"`
		State     store.SpawnState  `json:"state"`
		Repairs   int               `json:"repairs,omitempty"`
		Status    perdure.TaskState `json:"status,omitempty"`
		Result    octets            `json:"result,omitempty"`
		CreatedAt time.Time         `json:"created_at"`
		SettledAt time.Time         `json:"settled_at,omitzero"`
	}
	partialRow struct {
		Message perdure.MessageID `json:"message_id"`
		Text    octets            `json:"text"`
		At      time.Time         `json:"at"`
	}
	fileRow struct {
		Path      octets         `json:"path"`
		Directory bool           `json:"directory,omitempty"`
		ReadOnly  bool           `json:"read_only,omitempty"`
		Encoding  store.Encoding `json:"encoding,omitempty"`
		Content   octets         `json:"content,omitempty"`
		CreatedAt time.Time      `json:"created_at"`
		UpdatedAt time.Time      `json:"updated_at"`
	}
	valueRow struct {
		Key       octets    `json:"key"`
		Text      octets    `json:"text,omitempty"`
		Version   int64     `json:"version"`
		CreatedAt time.Time `json:"created_at"`
		UpdatedAt time.Time `json:"updated_at"`
	}
	imageRow struct {
		ID        perdure.ImageID `json:"id"`
		Filename  octets          `json:"filename,omitempty"`
		Type      string          `json:"content_type"`
		Metadata  octets          `json:"metadata"`
		Content   []byte          `json:"content"` // also if the store keeps it as a blob
		CreatedAt time.Time       `json:"created_at"`
	}
	// databaseRow is a piece of a database. The pieces of a database are consecutive.
	databaseRow struct {
		Name    string `json:"name"`
		Offset  int    `json:"offset"`
		Content []byte `json:"content"`
	}
)

// databasePiece is the number of bytes of a database per line. Base64 adds a third.
const databasePiece = 8 << 20

// session writes the rows of a session.
func (a *archiveWriter) session(p archivedSession) error {
	d, s := p.SessionDump, p.Session
	err := a.put("session", sessionRow{
		s.ID, s.Parent, s.Root, s.Forked, octets(s.Title), s.Labels, s.Status, s.LastSeq, s.Epoch, s.Worker,
		s.Resumes, s.SeenSeq, hex.EncodeToString(s.Secret[:]), s.CreatedAt, s.UpdatedAt,
	})
	put := func(kind string, v any) {
		if err == nil {
			err = a.put(kind, v)
		}
	}
	for _, body := range d.Events {
		put("event", body)
	}
	for _, c := range d.Calls {
		put("call", callRow{
			octets(c.Key.Call), c.Turn, c.Task, c.Attempt, octets(c.Tool), octets(c.Args), c.Fingerprint, c.Class,
			c.State, c.Token, c.Worker, c.Epoch, c.Executions, c.Result, octets(c.ResolvedBy), c.ClaimedAt,
			c.SettledAt,
		})
	}
	for _, t := range d.Tasks {
		put("task", t)
	}
	for _, m := range d.Messages {
		put("message", messageRow{m.ID, m.Task, m.Direction, octets(m.Text), octets(m.Data), m.InReplyTo,
			octets(m.By), m.CreatedAt})
	}
	for _, c := range d.Logs {
		put("log", logRow{c.Task, c.Offset, octets(c.Stream), c.Attempt, c.At, octets(c.Bytes)})
	}
	for _, v := range d.Deliveries {
		put("delivery", deliveryRow{v.Task, v.Attempt, v.State, v.Settled, v.Claimed})
	}
	for _, q := range d.Approvals {
		put("approval", approvalRow{octets(q.Call), q})
	}
	for _, h := range d.Spawns {
		put("spawn", spawnRow{
			octets(h.Key.Call), h.Root, h.Depth, h.Task, h.Child, octets(h.Name), octets(h.Prompt), octets(h.Schema),
			h.Token, h.State, h.Repairs, h.Status, octets(h.Result), h.CreatedAt, h.SettledAt,
		})
	}
	for _, p := range d.Partials {
		put("partial", partialRow{p.Message, octets(p.Text), p.At})
	}
	for _, f := range d.Files {
		put("file",
			fileRow{octets(f.Path), f.Directory, f.ReadOnly, f.Encoding, octets(f.Content), f.CreatedAt, f.UpdatedAt})
	}
	for _, s := range d.Schedules {
		put("schedule", s)
	}
	for _, f := range d.Fires {
		put("fire", f)
	}
	for _, v := range d.Values {
		put("value", valueRow{octets(v.Key), octets(v.Text), v.Version, v.CreatedAt, v.UpdatedAt})
	}
	for _, i := range d.Images {
		put("image", imageRow{i.ID, octets(i.Filename), i.ContentType, octets(i.Metadata), i.Data, i.CreatedAt})
	}
	for _, c := range p.databases {
		for at := 0; at == 0 || at < len(c.Content); at += databasePiece {
			put("database", databaseRow{c.Name, at, c.Content[at:min(at+databasePiece, len(c.Content))]})
		}
	}
	return err
}

// readImage adds an image. The import later decides where its bytes are stored.
func (p *archivedSession) readImage(text json.RawMessage) error {
	i, err := rowOf[imageRow](text)
	sum := sha256.Sum256(i.Content)
	p.Images = append(p.Images, store.Image{
		ID: i.ID, Session: p.Session.ID, Filename: string(i.Filename), ContentType: i.Type,
		SizeBytes: int64(len(i.Content)), SHA256: hex.EncodeToString(sum[:]),
		Metadata: i.Metadata.bytesOrNil(), Data: i.Content, CreatedAt: i.CreatedAt,
	})
	return err
}

// readDatabase adds a piece of a database.
func (p *archivedSession) readDatabase(text json.RawMessage) error {
	c, err := rowOf[databaseRow](text)
	if err != nil {
		return err
	}
	last := len(p.databases) - 1
	switch {
	case c.Offset == 0:
		p.databases = append(p.databases, sessionsql.Copy{Name: c.Name, Content: c.Content})
	case last < 0 || p.databases[last].Name != c.Name || len(p.databases[last].Content) != c.Offset ||
		len(c.Content) == 0:
		return fmt.Errorf("the piece of database %s at offset %d does not continue the one before it",
			clipped(c.Name), c.Offset)
	default:
		p.databases[last].Content = append(p.databases[last].Content, c.Content...)
	}
	return nil
}

func readSession(text json.RawMessage, d *store.SessionDump) error {
	s, err := rowOf[sessionRow](text)
	if err != nil {
		return err
	}
	secret, err := hex.DecodeString(s.Secret)
	if err != nil || len(secret) != len(d.Session.Secret) {
		return fmt.Errorf("the session's secret is not %d bytes in hexadecimal", len(d.Session.Secret))
	}
	d.Session = store.Session{
		ID: s.ID, Parent: s.Parent, Root: s.Root, Forked: s.Forked, Title: string(s.Title), Labels: s.Labels,
		Status: s.Status, LastSeq: s.LastSeq, Epoch: s.Epoch,
		Worker: s.Worker, Resumes: s.TakeUps, SeenSeq: s.TakenSeq, Secret: perdure.Secret(secret),
		CreatedAt: s.CreatedAt, UpdatedAt: s.UpdatedAt,
	}
	return nil
}

func rowOf[T any](text json.RawMessage) (T, error) {
	var row T
	err := perdure.DecodeJSON(text, &row)
	return row, err
}

// readRow adds a row to its session.
func readRow(kind string, text json.RawMessage, p *archivedSession) error {
	d, id := &p.SessionDump, p.Session.ID
	switch kind {
	case "image":
		return p.readImage(text)
	case "database":
		return p.readDatabase(text)
	case "event":
		d.Events = append(d.Events, text)
	case "call":
		c, err := rowOf[callRow](text)
		d.Calls = append(d.Calls, perdure.Call{
			Key: perdure.CallKey{Session: id, Call: perdure.CallID(c.ID)}, Turn: c.Turn, Task: c.Task,
			Attempt: c.Attempt, Tool: string(c.Tool), Args: c.Args.bytesOrNil(), Fingerprint: c.Fingerprint,
			Class: c.Class, State: c.State, Token: c.Token, Worker: c.Worker, Epoch: c.Epoch,
			Executions: c.Executions, Result: c.Result, ResolvedBy: string(c.ResolvedBy), ClaimedAt: c.ClaimedAt,
			SettledAt: c.SettledAt,
		})
		return err
	case "approval":
		q, err := rowOf[approvalRow](text)
		q.Approval.Call = perdure.CallID(q.Call)
		d.Approvals = append(d.Approvals, q.Approval)
		return err
	case "partial":
		p, err := rowOf[partialRow](text)
		d.Partials = append(d.Partials, store.Partial{Session: id, Message: p.Message, Text: string(p.Text), At: p.At})
		return err
	case "file":
		f, err := rowOf[fileRow](text)
		d.Files = append(d.Files, store.File{
			Path: string(f.Path), Content: f.Content.bytesOrNil(), Encoding: f.Encoding, Directory: f.Directory,
			ReadOnly: f.ReadOnly, SizeBytes: int64(len(f.Content)), CreatedAt: f.CreatedAt, UpdatedAt: f.UpdatedAt,
		})
		return err
	case "value":
		v, err := rowOf[valueRow](text)
		d.Values = append(d.Values, store.Value{
			Session: id, Key: string(v.Key), Text: string(v.Text), Version: v.Version, CreatedAt: v.CreatedAt,
			UpdatedAt: v.UpdatedAt,
		})
		return err
	default:
		return readTaskRow(kind, text, d)
	}
	return nil
}

// readTaskRow is readRow for tasks and their rows.
func readTaskRow(kind string, text json.RawMessage, d *store.SessionDump) error {
	id := d.Session.ID
	switch kind {
	case "task":
		t, err := rowOf[perdure.Task](text)
		d.Tasks = append(d.Tasks, t)
		return err
	case "message":
		m, err := rowOf[messageRow](text)
		d.Messages = append(d.Messages, perdure.TaskMessage{
			ID: m.ID, Task: m.Task, Direction: m.Direction, Text: string(m.Text), Data: m.Body.bytesOrNil(),
			InReplyTo: m.InReplyTo, By: string(m.By), CreatedAt: m.CreatedAt,
		})
		return err
	case "log":
		c, err := rowOf[logRow](text)
		chunk := store.LogChunk{
			Offset: c.Offset, Stream: string(c.Stream), Attempt: c.Attempt, At: c.At, Bytes: []byte(c.Bytes),
		}
		d.Logs = append(d.Logs, store.TaskChunk{Task: c.Task, LogChunk: chunk})
		return err
	case "delivery":
		v, err := rowOf[deliveryRow](text)
		d.Deliveries = append(d.Deliveries, store.Delivery{
			Session: id, Task: v.Task, Attempt: v.Attempt, State: v.State, Settled: v.Settled, Claimed: v.Claimed,
		})
		return err
	case "schedule":
		s, err := rowOf[perdure.Schedule](text)
		d.Schedules = append(d.Schedules, s)
		return err
	case "fire":
		f, err := rowOf[perdure.Fire](text)
		d.Fires = append(d.Fires, f)
		return err
	case "spawn":
		h, err := rowOf[spawnRow](text)
		d.Spawns = append(d.Spawns, store.Spawn{
			Key: perdure.CallKey{Session: id, Call: perdure.CallID(h.Call)}, Root: h.Root, Depth: h.Depth,
			Task: h.Task, Child: h.Child, Name: string(h.Name), Prompt: string(h.Prompt),
			Schema: h.Schema.bytesOrNil(), Token: h.Token, State: h.State, Repairs: h.Repairs, Status: h.Status,
			Result: h.Result.bytesOrNil(), CreatedAt: h.CreatedAt, SettledAt: h.SettledAt,
		})
		return err
	}
	return fmt.Errorf("unknown row kind %s", clipped(kind))
}
