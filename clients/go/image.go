package betree

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
)

// Places in an image (docs/guides/image.md of BeTree). The size of its first section takes five bytes, so that these places are
// the same in every image.
const (
	nameAt        = 14
	versionAt     = 30
	interfaceAt   = 34
	digestAt      = 38
	lengthAt      = 70
	memoryAt      = 78
	minImageBytes = 118

	pageBytes   = 1 << 16
	maxMemory   = 1 << 32
	moduleStart = "\x00asm\x01\x00\x00\x00\x00"
	imageName   = "\x07be_treeBTIMAGE\n"

	imageVersion     = 1
	interfaceVersion = 1
)

// checkImage refuses bytes that are no image, and returns the size of the memory of an image.
func checkImage(image []byte) (memory uint64, failure *Error) {
	if len(image) < minImageBytes || !bytes.HasPrefix(image, []byte(moduleStart)) ||
		!bytes.HasPrefix(image[nameAt:], []byte(imageName)) {
		return 0, refused(BadImage, "this is no image; expected a file that mix be_tree.image build wrote")
	}
	if version := binary.LittleEndian.Uint32(image[versionAt:]); version != imageVersion {
		return 0, refused(BadImage, "the image's version is %d; expected %d", version, imageVersion)
	}
	if version := binary.LittleEndian.Uint32(image[interfaceAt:]); version != interfaceVersion {
		return 0, refused(BadImage, "the version of the image's interface is %d; expected %d", version, interfaceVersion)
	}
	if length := binary.LittleEndian.Uint64(image[lengthAt:]); length != uint64(len(image)) {
		return 0, refused(BadImage, "the image has %d bytes; expected %d", len(image), length)
	}
	if digest := imageDigest(image); !bytes.Equal(digest, image[digestAt:lengthAt]) {
		return 0, refused(BadImage, "the image's SHA-256 is %x; expected %x", digest, image[digestAt:lengthAt])
	}
	memory = binary.LittleEndian.Uint64(image[memoryAt:])
	if memory%pageBytes != 0 || memory > maxMemory {
		return 0, refused(BadImage, "the image's memory has %d bytes; expected pages of %d", memory, pageBytes)
	}
	return memory, nil
}

// imageDigest covers all bytes except its own.
func imageDigest(image []byte) []byte {
	hash := sha256.New()
	hash.Write(image[:digestAt])
	hash.Write(image[lengthAt:])
	return hash.Sum(nil)
}
