package tool

import (
	"context"
	"encoding/json"
	"io"
	"time"

	"github.com/perdure/perdure"
)

// Values stores values by key for a session (the port "Session storage store"). A key has 1 to 256
// bytes, a value at most 1 MiB, and a session at most 1,000 keys; otherwise the error is Limit or
// Invalid, with a text for the model.
type Values interface {
	// SetValue writes or replaces a value.
	SetValue(ctx context.Context, key, text string) error
	// Value returns a value, and whether it exists.
	Value(ctx context.Context, key string) (text string, ok bool, err error)
	// RemoveValue deletes a value and reports whether it existed.
	RemoveValue(ctx context.Context, key string) (bool, error)
	// Keys lists the keys in order, without values.
	Keys(ctx context.Context) ([]KeyStat, error)
}

// KeyStat describes a value.
type KeyStat struct {
	Key       string    `json:"key"`
	Version   int64     `json:"version"` // from 1, increased by each write
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

// Secrets stores encrypted secrets for a session (the port "Session storage store"). A name has 1
// to 256 bytes, a secret at most 64 KiB. Without an encryption key, methods that need one return
// Unavailable with the reason.
type Secrets interface {
	// SetSecret encrypts and writes or replaces a secret.
	SetSecret(ctx context.Context, s SecretWrite) error
	// Secret describes a secret. NotFound: it does not exist, or its name is reserved.
	Secret(ctx context.Context, name string) (SecretStat, error)
	// Reveal returns the value of a secret. It is for tools that have the permission secret.read or
	// that send the value only to its allowed hosts. Every call is audited. NotFound: it does not
	// exist, or its name is reserved. Other errors are those of internal/secret: unknown key,
	// tampering, corruption.
	Reveal(ctx context.Context, name string) (string, error)
	// RemoveSecret deletes a secret and reports whether it existed.
	RemoveSecret(ctx context.Context, name string) (bool, error)
	// Secrets lists the names in order, without values.
	Secrets(ctx context.Context) ([]SecretStat, error)
}

// SecretWrite is a secret to write.
type SecretWrite struct {
	Name  string
	Value string
	Hosts []string // hosts that the value may be sent to; empty: none, only the environment of a process
}

// SecretStat describes a secret without its value.
type SecretStat struct {
	Name      string    `json:"name"`
	Version   int64     `json:"version"` // from 1, increased by each write
	Hosts     []string  `json:"hosts,omitempty"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`

	Call perdure.CallID `json:"-"` // the call that wrote this version; empty: none
}

// SecretMasker knows the values of the session's secrets, so that they can be masked in what tools
// report: as they are, and in base64, hex, URL and JSON escapes. It follows changes of the secrets.
// Safe for concurrent use.
type SecretMasker interface {
	// Any reports whether there is anything to mask.
	Any() bool
	// Complete returns why some secrets are not known now, for instance because the store does not
	// answer; nil: all are known. NotFound: the encryption key of one is missing.
	Complete() error
	// Mask masks the secrets in a text.
	Mask(text string) string
	// Stream masks the secrets in a stream, however it is split.
	Stream() StreamMasker
}

// StreamMasker masks one stream. It is used by one goroutine.
type StreamMasker interface {
	// Feed takes the next piece and returns what can be passed on now.
	Feed(chunk []byte) []byte
	// Flush returns what was held back, after the last piece.
	Flush() []byte
	// Skip says that a piece of the stream is missing here, and returns what can still be passed on
	// of what came before. Parts of a secret on either side of the gap are masked.
	Skip() []byte
}

// Images stores the images that tools create (the port "Image store"). An image has at most 20 MB.
// Its type is detected from the bytes.
type Images interface {
	// Create returns after the bytes are durable. Invalid: not an image. Limit: too large.
	Create(ctx context.Context, w ImageWrite) (ImageStat, error)
	// Image returns an image with its bytes. NotFound: it does not exist in this session.
	Image(ctx context.Context, id perdure.ImageID) (Image, error)
	// ImageStat describes an image. NotFound: it does not exist in this session.
	ImageStat(ctx context.Context, id perdure.ImageID) (ImageStat, error)
	// Resolve returns an image in the form for a model, and whether it exists (the port "Image
	// resolver").
	Resolve(ctx context.Context, id perdure.ImageID) (ResolvedImage, bool, error)
}

// ImageManager is implemented by Images that the runtime and its callers use too: for the images in
// the results of tools, and for those that people upload. The store's own Images are one.
type ImageManager interface {
	// CreateOnce is Create, unless the session has an image with the same bytes and the same file
	// name: that one is returned.
	CreateOnce(ctx context.Context, w ImageWrite) (ImageStat, error)
	// List lists the images of the session in the order of their creation.
	List(ctx context.Context) ([]ImageStat, error)
	// Remove removes an image. NotFound: it does not exist in this session.
	Remove(ctx context.Context, id perdure.ImageID) error
}

// ImageWrite is an image to store.
type ImageWrite struct {
	Filename string
	Data     []byte
	Metadata []byte // JSON object; empty: {}
}

// ImageStat describes an image.
type ImageStat struct {
	ID          perdure.ImageID `json:"id"`
	Filename    string          `json:"filename"`
	ContentType string          `json:"content_type"` // image/png, image/jpeg, image/gif or image/webp
	SizeBytes   int64           `json:"size_bytes"`
	Metadata    json.RawMessage `json:"metadata"`
	CreatedAt   time.Time       `json:"created_at"`
}

// Image is an image with its bytes.
type Image struct {
	ImageStat
	Data []byte
}

// ResolvedImage is an image in the form for a model.
type ResolvedImage struct {
	MediaType string
	Base64    string
}

// URL returns the image as data:<type>;base64,<data>.
func (r ResolvedImage) URL() string { return "data:" + r.MediaType + ";base64," + r.Base64 }

// SQL gives access to the session's own databases, by name (the port "Session SQL store"): 10
// databases of 50 MB, 100 MB in total.
type SQL interface {
	// Query runs one statement that reads. It returns at most 1,000 rows and 1 MB; Note says what
	// was cut off. Invalid: the database's error about the statement, for the model. Limit: it took
	// longer than 30 s, or the storage limit is reached.
	Query(ctx context.Context, s SQLStatement) (SQLRows, error)
	// Execute runs one statement that writes, in its own transaction.
	Execute(ctx context.Context, s SQLStatement) (SQLResult, error)
	// Schema lists the tables with their columns; none for a database that does not exist.
	Schema(ctx context.Context, database string) ([]SQLTable, error)
	// Databases lists the session's databases.
	Databases(ctx context.Context) ([]SQLDatabase, error)
}

// SQLDumper is implemented by SQL that can write a database as text. The store's own SQL can.
type SQLDumper interface {
	// Dump writes a database as SQL statements that create it again, as of one moment. NotFound: it
	// does not exist.
	Dump(ctx context.Context, database string, w io.Writer) error
}

// SQLStatement is one statement.
type SQLStatement struct {
	Database string // a name of letters, digits, - and _; empty: main
	Text     string
	Args     []any // nil, bool, float64, json.Number or string, as decoded from JSON
}

// SQLRows is the result of a query.
type SQLRows struct {
	Columns []string `json:"columns"`
	Rows    [][]any  `json:"rows"`
	Note    string   `json:"note,omitempty"` // says what was cut off
}

// SQLResult is the result of a statement that writes.
type SQLResult struct {
	RowsAffected int64 `json:"rows_affected"`
	LastInsertID int64 `json:"last_insert_id"`
}

// SQLTable is a table or view.
type SQLTable struct {
	Name    string      `json:"name"`
	Kind    string      `json:"kind"` // table or view
	Columns []SQLColumn `json:"columns"`
}

// SQLColumn is a column.
type SQLColumn struct {
	Name       string `json:"name"`
	Type       string `json:"type"`
	NotNull    bool   `json:"not_null"`
	PrimaryKey bool   `json:"primary_key"`
}

// SQLDatabase is one of the session's databases.
type SQLDatabase struct {
	Name      string `json:"name"`
	SizeBytes int64  `json:"size_bytes"`
}
