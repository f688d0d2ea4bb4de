import { randomBytes } from "node:crypto";
import type { Readable } from "node:stream";
import { AppError } from "../../lib/errors.ts";
import { implementService, type Meta } from "../../lib/service.ts";
import { linkBase } from "./link-base.ts";
import { openStore } from "./open-store.ts";
import { linkProblem, signLink } from "./signed-link.ts";
import { storageContract } from "./storage.contract.ts";
import { checkForm, issueTicket } from "./upload-policy.ts";

const inSeconds = (seconds: number) => Math.floor(Date.now() / 1000) + seconds;

export const storageService = implementService(storageContract, {
  async start(host) {
    const store = await openStore(host.config);
    // A server that is away for the moment must not keep the node from starting.
    await store.ensureBucket(host.config.OSS_BUCKET_NAME).catch((error: Error) => {
      host.logger.warn(`bucket ${host.config.OSS_BUCKET_NAME}: ${error.message}`);
    });
    return store;
  },
  stop: (store) => store.close(),
  handlers: {
    put(ctx, store) {
      const { bytes, bytesMin, bytesMax, ...object } = ctx.params;
      if (!ctx.stream)
        throw new AppError("INVALID_INPUT", { reason: "storage.put needs the option `stream`" });
      const source = ctx.stream as Readable;
      return store.put(object, source, { bytes, bytesMin, bytesMax });
    },
    read(ctx, store) {
      const { start, end, etag, ...ref } = ctx.params;
      return store.read(ref, { start, end, etag });
    },
    stat: (ctx, store) => store.stat(ctx.params),
    async remove(ctx, store) {
      await store.remove(ctx.params);
      return {};
    },
    removePrefix: async (ctx, store) => ({
      removed: await store.removePrefix(ctx.params.bucket, ctx.params.prefix),
    }),
    list: (ctx, store) => store.list(ctx.params),
    async link(ctx, store, host) {
      const { expires, ...ref } = ctx.params;
      const direct = await store.readUrl?.(ref, expires);
      if (direct) return { url: direct };
      const path = signLink(host.config.STORAGE_SECRET, {
        ...ref,
        method: "GET",
        expires: expires === undefined ? undefined : inSeconds(expires),
      });
      return { url: linkBase(host, ctx.meta as Meta) + path };
    },
    uploadLink(ctx, _store, host) {
      const { expires, ...grant } = ctx.params;
      const path = signLink(host.config.STORAGE_SECRET, {
        ...grant,
        method: "PUT",
        expires: inSeconds(expires),
      });
      return { url: linkBase(host, ctx.meta as Meta) + path };
    },
    admit(ctx, _store, host) {
      const reason = linkProblem(host.config.STORAGE_SECRET, ctx.params, Date.now());
      if (reason) throw new AppError("LINK_REJECTED", { reason });
      return {};
    },
    uploadForm(ctx, _store, host) {
      const { expires, ...request } = ctx.params;
      const ticket = issueTicket(
        host.config.STORAGE_SECRET,
        {
          ...request,
          accessKeyId: `STS.${randomBytes(12).toString("hex")}`,
          expire: inSeconds(expires),
        },
        Date.now(),
      );
      return { ...ticket, host: `${linkBase(host, ctx.meta as Meta)}/objects/${request.bucket}` };
    },
    admitForm(ctx, _store, host) {
      const { bucket, fields } = ctx.params;
      const verdict = checkForm(host.config.STORAGE_SECRET, bucket, fields, Date.now());
      if (verdict.problem !== undefined)
        throw new AppError("UPLOAD_REJECTED", { reason: verdict.problem });
      return verdict.value;
    },
  },
});
