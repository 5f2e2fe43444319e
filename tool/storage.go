package tool

import (
	"context"
	"encoding/json"
	"time"

	"github.com/perdure/perdure"
)

// Values is what a session keeps by key (the port "Session storage store"; VA1). A key has 1 to 256 bytes, a value at
// most 1 MiB, a session at most 1,000 keys; beyond is Limit or Invalid, with a text fit for the model.
type Values interface {
	// SetValue writes a value, or replaces it.
	SetValue(ctx context.Context, key, text string) error
	// Value returns a value, and whether it is there.
	Value(ctx context.Context, key string) (text string, ok bool, err error)
	// RemoveValue says whether it was there.
	RemoveValue(ctx context.Context, key string) (bool, error)
	// Keys lists the keys in their order, without values.
	Keys(ctx context.Context) ([]KeyStat, error)
}

// KeyStat describes a value.
type KeyStat struct {
	Key       string    `json:"key"`
	Version   int64     `json:"version"` // from 1, one more with each write
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

// Secrets is what a session keeps under lock and key (the port "Session storage store"; SE1 to SE4). A name has 1 to
// 256 bytes, a secret at most 64 KiB. Without a key every method that needs one is Unavailable, with the reason.
type Secrets interface {
	// SetSecret seals a value and writes it, or replaces it.
	SetSecret(ctx context.Context, s SecretWrite) error
	// Secret describes a secret. NotFound: it is not there, or its name is reserved.
	Secret(ctx context.Context, name string) (SecretStat, error)
	// Reveal opens a secret, for a tool that has the permission secret.read or that puts it where its hosts allow.
	// Every call is audited. NotFound: it is not there, or its name is reserved. The other errors are those of
	// internal/secret: an unknown key, tampering, corruption.
	Reveal(ctx context.Context, name string) (string, error)
	// RemoveSecret says whether it was there.
	RemoveSecret(ctx context.Context, name string) (bool, error)
	// Secrets lists the names in their order, without values.
	Secrets(ctx context.Context) ([]SecretStat, error)
}

// SecretWrite is a secret on its way in.
type SecretWrite struct {
	Name  string
	Value string
	Hosts []string // where the value may be sent to; empty: nowhere, only into the environment of a process
}

// SecretStat describes a secret, never its value.
type SecretStat struct {
	Name      string    `json:"name"`
	Version   int64     `json:"version"` // from 1, one more with each write
	Hosts     []string  `json:"hosts,omitempty"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`

	Call perdure.CallID `json:"-"` // that wrote this version; empty: none did
}

// Known is the values of the session's secrets, for whoever masks what its tools say (SE4, RD5): as they are, and in base64,
// hex, URL and JSON escapes. It follows what is added and removed. Safe for concurrent use.
type Known interface {
	// Any reports whether there is anything to mask.
	Any() bool
	// Readable says why not all of them are known now, for instance since the store does not answer; nil: they are. NotFound:
	// the key of one is not here.
	Readable() error
	// Mask takes the secrets out of a text.
	Mask(text string) string
	// Stream takes them out of one stream, wherever its pieces were cut.
	Stream() Masking
}

// Masking is one stream that is masked. One goroutine uses it.
type Masking interface {
	// Feed takes the next piece and returns what may go out now.
	Feed(chunk []byte) []byte
	// Flush returns what was held back, when nothing more comes.
	Flush() []byte
	// Skip says that a piece of the stream is missing here, and returns what may still go out of what came before it. What a
	// secret has on either side of the piece is not shown.
	Skip() []byte
}

// Images is the images that tools leave (the port "Image store"; IM1). An image has at most 20 MB, and its type is
// sniffed, not believed.
type Images interface {
	// Create returns once the bytes are durable. Invalid: it is no image. Limit: it is too large.
	Create(ctx context.Context, w ImageWrite) (ImageStat, error)
	// Image returns an image with its bytes. NotFound: unknown or foreign.
	Image(ctx context.Context, id perdure.ImageID) (Image, error)
	// ImageStat describes an image. NotFound: unknown or foreign.
	ImageStat(ctx context.Context, id perdure.ImageID) (ImageStat, error)
	// Resolve is an image as a model is sent it, and whether it is there (the port "Image resolver").
	Resolve(ctx context.Context, id perdure.ImageID) (ResolvedImage, bool, error)
}

// ImageWrite is an image on its way in.
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

// ResolvedImage is an image on its way to a model.
type ResolvedImage struct {
	MediaType string
	Base64    string
}

// URL is the image as data:<type>;base64,<data>.
func (r ResolvedImage) URL() string { return "data:" + r.MediaType + ";base64," + r.Base64 }

// SQL is the session's own databases, by name (the port "Session SQL store"; SQ1): 10 of 50 MB, 100 MB in all.
type SQL interface {
	// Query runs one statement that reads, at most 1,000 rows and 1 MB of them: what was cut is said. Invalid: what
	// the database says of the statement, fit for the model. Limit: it took longer than 30 s, or there is no room.
	Query(ctx context.Context, s SQLStatement) (SQLRows, error)
	// Execute runs one statement that writes, in a transaction of its own.
	Execute(ctx context.Context, s SQLStatement) (SQLDone, error)
	// Schema lists the tables and their columns; a database that does not exist has none.
	Schema(ctx context.Context, database string) ([]SQLTable, error)
	// Databases lists the session's databases.
	Databases(ctx context.Context) ([]SQLDatabase, error)
}

// SQLStatement is one statement.
type SQLStatement struct {
	Database string // a name of letters, digits, - and _; empty: main
	Text     string
	Args     []any // nil, bool, float64, string: as they come from JSON
}

// SQLRows is what a query found.
type SQLRows struct {
	Columns []string `json:"columns"`
	Rows    [][]any  `json:"rows"`
	Note    string   `json:"note,omitempty"` // says what was cut
}

// SQLDone is what a statement did.
type SQLDone struct {
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
