package acp

import (
	"encoding/base64"
	"fmt"
	"path/filepath"
	"strings"

	sdk "github.com/coder/acp-go-sdk"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/project"
)

// blocksOf converts a prompt into a message, and returns the part that the user
// typed. What an editor embeds becomes a document, as in a chat; what it links
// to is named, and the agent reads it if it wants to.
func blocksOf(prompt []sdk.ContentBlock) (blocks []tidemark.Block, typed string, err error) {
	for i, p := range prompt {
		b, err := blockOf(p)
		if err != nil {
			return nil, "", fmt.Errorf("block %d of the prompt: %w", i+1, err)
		}
		if p.Text != nil {
			typed += p.Text.Text
		} else if p.ResourceLink != nil {
			typed += p.ResourceLink.Name
		}
		blocks = append(blocks, b)
	}
	return blocks, typed, nil
}

func blockOf(p sdk.ContentBlock) (tidemark.Block, error) {
	switch {
	case p.Text != nil:
		return tidemark.Text(p.Text.Text), nil
	case p.Image != nil:
		return dataBlock(p.Image.MimeType, p.Image.Data, p.Image.Uri)
	case p.ResourceLink != nil:
		return tidemark.Text(fmt.Sprintf("<link name=%q path=%q />", p.ResourceLink.Name, pathOf(p.ResourceLink.Uri))), nil
	case p.Resource != nil && p.Resource.Resource.TextResourceContents != nil:
		t := p.Resource.Resource.TextResourceContents
		return tidemark.Text(fmt.Sprintf("<document path=%q>\n%s\n</document>", pathOf(t.Uri), t.Text)), nil
	case p.Resource != nil && p.Resource.Resource.BlobResourceContents != nil:
		b := p.Resource.Resource.BlobResourceContents
		return dataBlock(deref(b.MimeType), b.Blob, &b.Uri)
	case p.Audio != nil:
		return tidemark.Block{}, tidemark.Unsupportedf("sound is not taken")
	}
	return tidemark.Block{}, tidemark.Invalidf("no kind of content that is known")
}

// dataBlock is an image, or a file of the one kind that models read.
func dataBlock(media, data string, uri *string) (tidemark.Block, error) {
	b := tidemark.Block{Type: tidemark.BlockImage, MediaType: media}
	switch {
	case strings.HasPrefix(media, "image/"):
	case media == "application/pdf":
		b.Type, b.Name = tidemark.BlockFile, filepath.Base(pathOf(deref(uri)))
	default:
		return b, tidemark.Unsupportedf("a file of type %.80q is not taken; models read text, images and PDF", media)
	}
	var err error
	if b.Data, err = base64.StdEncoding.DecodeString(data); err != nil {
		return b, tidemark.Invalidf("%s: its data is not base64", media)
	}
	if len(b.Data) == 0 {
		if b.URL = deref(uri); b.URL == "" {
			return b, tidemark.Invalidf("%s: neither data nor an address", media)
		}
	}
	return b, nil
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// pathOf is the path in a file: address; any other address is returned
// unchanged.
func pathOf(uri string) string {
	if path, ok := project.PathOf(uri); ok {
		return path
	}
	return uri
}

// contentOf is a block as an editor shows it; false if there is nothing to
// show.
func contentOf(b tidemark.Block) (sdk.ContentBlock, bool) {
	switch {
	case b.Type == tidemark.BlockText && b.Text != "":
		return sdk.TextBlock(b.Text), true
	case b.Type == tidemark.BlockImage && len(b.Data) > 0:
		return sdk.ImageBlock(base64.StdEncoding.EncodeToString(b.Data), b.MediaType), true
	case (b.Type == tidemark.BlockImage || b.Type == tidemark.BlockFile) && b.URL != "":
		return sdk.ResourceLinkBlock(b.URL, b.URL), true
	case b.Type == tidemark.BlockFile:
		return sdk.TextBlock(fmt.Sprintf("[file %s, %s, %d bytes]", b.Name, b.MediaType, len(b.Data))), true
	}
	return sdk.ContentBlock{}, false
}
