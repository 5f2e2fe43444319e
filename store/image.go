package store

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/perdure/perdure"
)

// Limits of images. Sizes are in bytes.
const (
	MaxImageBytes       = 20 << 20
	MaxImageNameBytes   = 255
	MaxImageMetaBytes   = 64 << 10
	MaxImages           = 1000      // of a session
	MaxInlineImageBytes = 256 << 10 // larger images are better stored as blobs
)

// Image is an image that a tool produced or a caller uploaded. It is never changed.
type Image struct {
	ID          perdure.ImageID
	Session     perdure.SessionID
	Filename    string
	ContentType string // image/png, image/jpeg, image/gif or image/webp
	SizeBytes   int64
	SHA256      string          // of its bytes, 64 hexadecimal digits
	Metadata    json.RawMessage // a JSON object
	Blob        bool            // its bytes are outside of the store, named by SHA256
	Data        []byte          // its bytes; empty for a blob and in lists
	CreatedAt   time.Time
}

// ImageTypes returns the allowed types of images, which are those that models accept.
func ImageTypes() []string { return []string{"image/png", "image/jpeg", "image/gif", "image/webp"} }

// Check checks an image. Invalid or Limit: the error says what is wrong.
func (i Image) Check() error {
	var metadata map[string]any
	hash, err := hex.DecodeString(i.SHA256)
	switch {
	case i.ID == "" || i.Session == "":
		return fmt.Errorf("%w image: it has no id or no session", perdure.Invalid)
	case !slices.Contains(ImageTypes(), i.ContentType):
		return fmt.Errorf("%w image of type %q: PNG, JPEG, GIF and WebP are allowed", perdure.Invalid, i.ContentType)
	case len(i.Filename) > MaxImageNameBytes:
		return fmt.Errorf("%w image: its name has %d bytes, at most %d are allowed", perdure.Invalid, len(i.Filename),
			MaxImageNameBytes)
	case i.SizeBytes > MaxImageBytes:
		return fmt.Errorf("%w: an image of %d bytes, at most %d are allowed", perdure.Limit, i.SizeBytes, MaxImageBytes)
	case len(i.Metadata) > MaxImageMetaBytes || perdure.DecodeJSON(i.Metadata, &metadata) != nil || metadata == nil:
		return fmt.Errorf("%w image: its metadata is not a JSON object of at most %d bytes", perdure.Invalid,
			MaxImageMetaBytes)
	case err != nil || len(hash) != sha256.Size || hex.EncodeToString(hash) != i.SHA256:
		return fmt.Errorf("%w image: %q is not a SHA-256", perdure.Invalid, i.SHA256)
	case i.Blob && (len(i.Data) > 0 || i.SizeBytes < 1):
		return fmt.Errorf("%w image: a blob of %d bytes, and %d bytes with it", perdure.Invalid, i.SizeBytes,
			len(i.Data))
	case !i.Blob && (len(i.Data) == 0 || int64(len(i.Data)) != i.SizeBytes ||
		sha256.Sum256(i.Data) != [sha256.Size]byte(hash)):
		return fmt.Errorf("%w image: its size or SHA-256 is not that of its %d bytes", perdure.Invalid, len(i.Data))
	}
	return nil
}

// ImageReader reads images.
type ImageReader interface {
	// Get returns an image of a session with its bytes, unless they are a blob. NotFound: it does
	// not exist, or belongs to another session.
	Get(session perdure.SessionID, id perdure.ImageID) (Image, error)
	// List lists the images of a session in the order of their creation, without their bytes.
	List(session perdure.SessionID) ([]Image, error)
	// HasBlob reports whether any image of any session uses the blob with a SHA-256.
	HasBlob(sha256 string) (bool, error)
}

// ImageWriter writes images. What is left of them is removed with their session.
type ImageWriter interface {
	// Put adds an image and returns it without its bytes; the store sets the time. A blob must
	// be durable before. Invalid or Limit: as Check says. Limit: the session has MaxImages.
	// Conflict: the id exists. NotFound: no such session.
	Put(i Image) (Image, error)
	// Remove removes an image of a session. A blob stays. NotFound: it does not exist, or belongs
	// to another session.
	Remove(session perdure.SessionID, id perdure.ImageID) error
}
