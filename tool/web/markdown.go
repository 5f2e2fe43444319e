package web

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"

	"github.com/JohannesKaufmann/html-to-markdown/v2/converter"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/base"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/commonmark"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/table"
)

// What a page says of itself when it could not become Markdown.
const notMarkdown = "[This page could not be written as Markdown: its markup is too large or too deeply nested. Here is its text.]\n\n"

// markdown returns a page as Markdown. Where that is beyond the bounds it is the plain text, with a line that says so.
// The error is ctx's cause.
func (p page) markdown(ctx context.Context) (string, error) {
	for _, keepNav := range []bool{false, true} { // a page of nothing but links is made of them
		text, ok, err := p.convert(ctx, keepNav)
		if err != nil || strings.TrimSpace(text) != "" {
			return text, err
		}
		if !ok {
			return notMarkdown + p.plainText(), nil
		}
	}
	return "", nil
}

// convert lets the converter work; false: the page is not for it.
func (p page) convert(ctx context.Context, keepNav bool) (string, bool, error) {
	simple, ok := p.simplify(keepNav)
	if !ok {
		return "", false, nil
	}
	conv := converter.NewConverter(converter.WithPlugins(
		base.NewBasePlugin(),
		commonmark.NewCommonmarkPlugin(commonmark.WithListEndComment(false)),
		table.NewTablePlugin(
			table.WithHeaderPromotion(true),
			table.WithSkipEmptyRows(true),
			table.WithNewlineBehavior(table.NewlineBehaviorPreserve),
			table.WithCellPaddingBehavior(table.CellPaddingBehaviorMinimal), // aligned, one long cell makes every row as long
		),
	))
	conv.Register.UnEscaper(unescapeBracket, converter.PriorityEarly)
	text, err := conv.ConvertReader(stoppable{ctx, strings.NewReader(simple)},
		converter.WithContext(ctx), converter.WithDomain(p.base.String()))
	if ctx.Err() != nil {
		return "", false, context.Cause(ctx)
	}
	if err != nil { // the parser has limits of its own
		return "", false, nil
	}
	return string(bytes.TrimSpace(text)), true, nil
}

// stoppable is a reader that ends with its context, and with it the parsing.
type stoppable struct {
	ctx context.Context
	in  io.Reader
}

// Read reads on, or returns the cause of the end.
func (s stoppable) Read(b []byte) (int, error) {
	if s.ctx.Err() != nil {
		return 0, errors.Join(context.Cause(s.ctx), s.ctx.Err())
	}
	return s.in.Read(b)
}
