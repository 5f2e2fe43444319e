package modelwire

import (
	"bytes"
	"encoding/base64"
	"image"
	"image/color"
	_ "image/gif" // pictures of this type are decoded
	"image/jpeg"
	_ "image/png" // likewise

	"github.com/perdure/perdure"
)

const (
	// maxPixels bounds what is decoded: four bytes of memory each.
	maxPixels = 50_000_000
	// minEdge is the longer edge below which a picture shows nothing any more.
	minEdge     = 128
	jpegQuality = 85
)

// scaledDown returns a picture within limits: as a JPEG over white, with the longer edge that the
// provider itself would scale it to, or less. false: it cannot be decoded, or stays too large.
func scaledDown(raw []byte, size image.Config, limits PictureLimits) (perdure.Image, bool) {
	if size.Width <= 0 || size.Height <= 0 || size.Width > maxPixels/size.Height {
		return perdure.Image{}, false
	}
	decoded, _, err := image.Decode(bytes.NewReader(raw))
	if err != nil {
		return perdure.Image{}, false
	}
	for edge := min(limits.ScaledEdge, max(size.Width, size.Height)); ; edge = edge * 3 / 4 {
		var out bytes.Buffer
		if err := jpeg.Encode(&out, shrunk(decoded, edge), &jpeg.Options{Quality: jpegQuality}); err != nil {
			return perdure.Image{}, false
		}
		if limits.Base64 == 0 || base64.StdEncoding.EncodedLen(out.Len()) <= limits.Base64 {
			return perdure.Image{MediaType: "image/jpeg", Base64: base64.StdEncoding.EncodeToString(out.Bytes())}, true
		}
		if edge*3/4 < minEdge {
			return perdure.Image{}, false
		}
	}
}

// shrunk returns a picture over white whose longer edge has at most edge pixels. Each pixel is the
// mean of those that it covers, of which at most 4 × 4 are read.
func shrunk(in image.Image, edge int) *image.RGBA {
	from := in.Bounds()
	width, height := from.Dx(), from.Dy()
	if longest := max(width, height); longest > edge {
		width, height = max(width*edge/longest, 1), max(height*edge/longest, 1)
	}
	out := image.NewRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		top, bottom := from.Min.Y+y*from.Dy()/height, from.Min.Y+(y+1)*from.Dy()/height
		for x := range width {
			left, right := from.Min.X+x*from.Dx()/width, from.Min.X+(x+1)*from.Dx()/width
			out.SetRGBA(x, y, mean(in, image.Rect(left, top, max(right, left+1), max(bottom, top+1))))
		}
	}
	return out
}

// mean returns the mean color of an area over white.
func mean(in image.Image, area image.Rectangle) color.RGBA {
	stepX, stepY := max(area.Dx()/4, 1), max(area.Dy()/4, 1)
	var red, green, blue, n uint64
	for y := area.Min.Y; y < area.Max.Y; y += stepY {
		for x := area.Min.X; x < area.Max.X; x += stepX {
			r, g, b, a := in.At(x, y).RGBA()
			white := uint64(0xFFFF - a)
			red, green, blue, n = red+uint64(r)+white, green+uint64(g)+white, blue+uint64(b)+white, n+1
		}
	}
	return color.RGBA{R: uint8(red / n >> 8), G: uint8(green / n >> 8), B: uint8(blue / n >> 8), A: 0xFF}
}
