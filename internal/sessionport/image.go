package sessionport

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/blob"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// maxForks is how many forks an image is looked for through.
const maxForks = 16

// images is the images that tools leave (IM1), over the store and, for the bytes of large ones, the blobs.
type images struct {
	binding
	blobs *blob.Store // nil: all bytes stand in the store
}

var _ tool.Images = images{}

// Create returns once the bytes are durable: those of a large image before the row that names them, so that a crash in
// between leaves bytes without a row, and never a row without bytes.
func (p images) Create(ctx context.Context, w tool.ImageWrite) (tool.ImageStat, error) {
	i, err := p.newImage(w)
	if err == nil && p.blobs != nil && len(i.Data) > store.MaxInlineImageBytes {
		i.Blob, i.Data = true, nil
		_, err = p.blobs.Put(w.Data)
	}
	if err == nil {
		err = p.write(ctx, func(tx store.Tx, _ store.Session) (err error) {
			put, err := tx.PutImage(i)
			i.CreatedAt = put.CreatedAt
			return err
		})
	}
	if err != nil {
		return tool.ImageStat{}, fmt.Errorf("create image %.80q: %w", w.Filename, err)
	}
	return imageStat(i), nil
}

// newImage checks what is to become an image. Its type is what the bytes say.
func (p images) newImage(w tool.ImageWrite) (store.Image, error) {
	if len(w.Data) > store.MaxImageBytes {
		return store.Image{}, fmt.Errorf("%w: it has %d bytes, at most %d are kept", perdure.Limit, len(w.Data), store.MaxImageBytes)
	}
	kind := http.DetectContentType(w.Data)
	if !slices.Contains(store.ImageTypes(), kind) {
		return store.Image{}, fmt.Errorf("%w image: its bytes are %s; PNG, JPEG, GIF and WebP are kept", perdure.Invalid, kind)
	}
	metadata := []byte("{}")
	if len(bytes.TrimSpace(w.Metadata)) > 0 {
		metadata = bytes.Clone(w.Metadata)
	}
	sum := sha256.Sum256(w.Data)
	return store.Image{
		ID: newID[perdure.ImageID](), Session: p.session, Filename: strings.ToValidUTF8(w.Filename, "\uFFFD"), ContentType: kind,
		SizeBytes: int64(len(w.Data)), SHA256: hex.EncodeToString(sum[:]), Metadata: metadata, Data: w.Data,
	}, nil
}

// Image returns an image with its bytes.
func (p images) Image(ctx context.Context, id perdure.ImageID) (tool.Image, error) {
	i, err := p.find(ctx, id)
	if err == nil && i.Blob {
		i.Data, err = p.open(i)
	}
	if err != nil {
		return tool.Image{}, fmt.Errorf("read image %.80q: %w", id, err)
	}
	return tool.Image{ImageStat: imageStat(i), Data: i.Data}, nil
}

func (p images) open(i store.Image) ([]byte, error) {
	if p.blobs == nil {
		return nil, fmt.Errorf("%w: its bytes stand in a folder that this runtime was not given", perdure.Unavailable)
	}
	return p.blobs.Get(i.SHA256)
}

// ImageStat describes an image.
func (p images) ImageStat(ctx context.Context, id perdure.ImageID) (tool.ImageStat, error) {
	i, err := p.find(ctx, id)
	if err != nil {
		return tool.ImageStat{}, fmt.Errorf("describe image %.80q: %w", id, err)
	}
	return imageStat(i), nil
}

// Resolve is an image as a model is sent it. One whose bytes are gone is not there.
func (p images) Resolve(ctx context.Context, id perdure.ImageID) (tool.ResolvedImage, bool, error) {
	i, err := p.Image(ctx, id)
	switch {
	case errors.Is(err, perdure.NotFound):
		return tool.ResolvedImage{}, false, nil
	case err != nil:
		return tool.ResolvedImage{}, false, err
	}
	return tool.ResolvedImage{MediaType: i.ContentType, Base64: base64.StdEncoding.EncodeToString(i.Data)}, true, nil
}

// find looks for an image in the session, and in what it was forked from: a fork begins with the same messages, which name
// the same images.
func (p images) find(ctx context.Context, id perdure.ImageID) (found store.Image, err error) {
	err = p.store.View(ctx, func(r store.Reader) error {
		session := p.session
		for range maxForks {
			if found, err = r.Image(session, id); !errors.Is(err, perdure.NotFound) {
				return err
			}
			row, rowErr := r.Session(session)
			if rowErr != nil || row.Forked == "" {
				return err
			}
			session = row.Forked
		}
		return err
	})
	return found, err
}

func imageStat(i store.Image) tool.ImageStat {
	return tool.ImageStat{
		ID: i.ID, Filename: i.Filename, ContentType: i.ContentType, SizeBytes: i.SizeBytes, Metadata: i.Metadata, CreatedAt: i.CreatedAt,
	}
}

// CollectBlobs removes the blobs that no image names and that were put before a moment, which is to be long ago in terms
// of a commit: an hour. It returns how many went. Safe beside everything; running it again goes on.
func CollectBlobs(ctx context.Context, s store.Store, blobs *blob.Store, before time.Time) (removed int, err error) {
	err = blobs.Walk(before, func(b blob.Blob) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if !b.PutAt.Before(before) {
			return nil
		}
		named := true
		err := s.View(ctx, func(r store.Reader) (err error) {
			named, err = r.HasBlob(b.SHA256)
			return err
		})
		if err != nil || named {
			return err
		}
		gone, err := blobs.Remove(b.SHA256, before)
		if gone {
			removed++
		}
		return err
	})
	if err != nil {
		return removed, fmt.Errorf("collect blobs: %w", err)
	}
	return removed, nil
}
