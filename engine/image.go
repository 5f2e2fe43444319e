package engine

import (
	"context"
	"time"

	"github.com/perdure/perdure"
)

// MaxImageBytes limits an image.
const MaxImageBytes = 20 << 20

// Images stores images with sessions. A message names an image by its id, and the results of tools
// do the same. NotFound, in every method: no such session, or no such image in it.
type Images interface {
	// Put stores an image; it is durable when Images.Put returns. The same bytes under the same
	// name are one image of the session. Invalid: the bytes are not a PNG, JPEG, GIF or WebP image.
	// Limit: it is larger than MaxImageBytes, or the session has too many images.
	Put(ctx context.Context, id perdure.SessionID, w ImageWrite) (Image, error)
	// List lists the images of a session in the order of their creation, without their bytes. Those
	// of the session that it was forked from are not among them.
	List(ctx context.Context, id perdure.SessionID) ([]Image, error)
	// Get returns an image; with content it includes the bytes. It also finds the images of the
	// session that this one was forked from, because their messages name them.
	Get(ctx context.Context, id perdure.SessionID, image perdure.ImageID, content bool) (Image, error)
	// Remove removes an image of the session. Models read in its place that it is unavailable.
	Remove(ctx context.Context, id perdure.SessionID, image perdure.ImageID) error
}

// Image is an image of a session.
type Image struct {
	ID          perdure.ImageID `json:"id"`
	Filename    string          `json:"filename,omitempty"`
	ContentType string          `json:"content_type" enum:"image/png,image/jpeg,image/gif,image/webp"`
	SizeBytes   int64           `json:"size_bytes"`
	CreatedAt   time.Time       `json:"created_at"`
	Content     []byte          `json:"-"` // nil if it was not requested
}

// ImageWrite is an image to store. Its type follows from its bytes.
type ImageWrite struct {
	Filename string // at most 255 bytes; empty: none
	Content  []byte
}
