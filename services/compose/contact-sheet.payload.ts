import { z } from "zod";
import { Bucket, ObjectKey } from "../storage/storage.contract.ts";

/** What a job of kind "contact-sheet" is given: a rendered MP4 or MOV in the object storage. */
export const ContactSheetPayload = z.strictObject({ bucket: Bucket, key: ObjectKey });
